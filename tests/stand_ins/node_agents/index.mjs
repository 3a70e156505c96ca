export { default as refund } from "./orders.mjs";
