import assert from 'node:assert/strict';
import { test } from 'node:test';
import { quantityToScalar } from 'windlass';

test('a quantity is an amount', () => {
  for (const [quantity, amount] of [
    ['0', 0],
    ['500m', 0.5],
    ['100m', 0.1],
    ['1.5Gi', 1610612736],
    ['2k', 2000],
    ['1e3', 1000],
    ['12E-1', 1.2],
    ['1E', 1e18],
    ['1Ei', 2 ** 60],
    ['-100u', -0.0001],
    ['5.', 5],
    ['.5', 0.5],
    [2, 2],
  ]) {
    assert.equal(quantityToScalar(quantity), amount, String(quantity));
  }
});

test('an invalid quantity is named', () => {
  for (const text of ['', '.', '-', '1.2.3', '1K', '1kb', '1 Gi', 'Gi', '1e', '1e999', '0x1', 'NaN', undefined]) {
    assert.throws(() => quantityToScalar(text), /is not a quantity, which is like 500m/, text);
  }
});
