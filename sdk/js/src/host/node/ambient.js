// On Node.js the globals are Node's. `windlass/testing` replaces them while a plugin is called.
