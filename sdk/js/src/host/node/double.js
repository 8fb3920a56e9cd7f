// On Node.js there is no host: a plugin's calls go to the double of the running test, see ../../testing.js.

let double;

/** Makes `host` answer from now on, and returns its predecessor. */
export function use(host) {
  const before = double;
  double = host;
  return before;
}

export function asked(module, name) {
  return (...values) => {
    if (double === undefined) {
      throw new Error(
        `${module}.${name} needs the Windlass host; in a test, make one with new TestHost() from 'windlass/testing' and call the plugin by it`,
      );
    }
    return double[module][name](...values);
  };
}
