const DECIMAL = { n: -9, u: -6, m: -3, '': 0, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 };
const BINARY = ['Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'];

export function quantityToScalar(quantity) {
  if (typeof quantity === 'number') return quantity;
  const [, number, suffix = ''] = /^([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?$/.exec(quantity) ?? [];
  if (number === undefined) {
    throw new RangeError(`${JSON.stringify(String(quantity).slice(0, 64))} is not a quantity, which is like 500m, 2 or 1.5Gi`);
  }
  const power = BINARY.indexOf(suffix) + 1;
  if (power > 0) return Number(number) * 1024 ** power;
  // The conversion uses a text, because 500 * 0.001 would not be the closest number.
  return Number(`${number}e${DECIMAL[suffix] ?? suffix.slice(1)}`);
}
