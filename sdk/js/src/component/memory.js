// The component contains the memory as it is after the modules have been loaded, except for zeros.

/**
 * Overwrites unused data in free memory with zeros, because it would be a twentieth of a component. It allocates only
 * blocks of the sizes that are free, so that memory does not grow.
 */
export function clearFreeMemory() {
  const pieces = [];
  for (let size = 4096; size >= 256; size /= 2) {
    for (let count = 0; count < 16; count += 1) pieces.push(new ArrayBuffer(size));
  }
}
