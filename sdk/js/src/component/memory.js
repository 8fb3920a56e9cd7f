// The memory that is stored in the component: everything but zeros, as it is after the modules have been loaded.

/**
 * Overwrites leftovers in free memory with zeros; they would be a twentieth of a component. It allocates blocks of the free sizes, and no
 * more of them, or memory would grow.
 */
export function clearFreeMemory() {
  const pieces = [];
  for (let size = 4096; size >= 256; size /= 2) {
    for (let count = 0; count < 16; count += 1) pieces.push(new ArrayBuffer(size));
  }
}
