/**
 * The amount of a resource quantity: 0.5 for `500m`, 1610612736 for `1.5Gi`. A number is its own amount. Whole amounts are exact up to 2⁵³.
 */
export function quantityToScalar(quantity: string | number): number;
