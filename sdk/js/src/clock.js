import * as host from '#host/clock';

export function now() {
  const { seconds, nanoseconds } = host.now();
  return { seconds: seconds >>> 0, nanoseconds: nanoseconds >>> 0 };
}

export function timestamp({ seconds } = now()) {
  return `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`;
}
