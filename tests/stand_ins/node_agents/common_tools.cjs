module.exports = {
  get_order: async () => {
    throw new Error("the real tool ran");
  },
};
