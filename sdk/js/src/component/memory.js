// The memory that is stored in the component: all of it but zeros, as it is when the modules have been loaded.

/**
 * Overwrites with zeros what loading has left in free memory, which is a twentieth of a component. In pieces of the sizes that are free
 * then, and not more of them, or memory would grow.
 */
export function clearFreeMemory() {
  const pieces = [];
  for (let size = 4096; size >= 256; size /= 2) {
    for (let count = 0; count < 16; count += 1) pieces.push(new ArrayBuffer(size));
  }
}
