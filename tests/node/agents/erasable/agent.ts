import { cancelOrder, getOrder } from "./tools.ts";


const refund = async (orderId: string, amount: number): Promise<string> => {
  throw new Error(`the real tool ran: ${orderId} ${amount}`);
};
export { refund as refundOrder };

export async function runAgent(input: string, { model }: { model?: string } = {}): Promise<string> {
  const answers = [await getOrder({ orderId: input }), await cancelOrder(input), await refund(input, 3)];
  return [...answers, model, 1].join();
}
