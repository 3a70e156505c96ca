export const orders = {
  async list({ state }) {
    throw new Error(`the real tool ran: ${state}`);
  },
};

export default async function refund({ order_id }) {
  throw new Error(`the real tool ran: ${order_id}`);
}
