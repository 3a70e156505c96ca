export async function getOrder({ orderId }: { orderId: string }): Promise<string> {
  throw new Error(`the real tool ran: ${orderId}`);
}

export const cancelOrder = async (orderId: string, reason = "none"): Promise<string> => {
  throw new Error(`the real tool ran: ${orderId} ${reason}`);
};
