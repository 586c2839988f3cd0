/** Returns a generator of numbers from 0 up to 1, which is the same in every run. */
export function makeRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Returns an exponentially distributed time, as between independent events: many short ones, few long ones. */
export function drawExponential(random: () => number, mean: number): number {
  return -mean * Math.log(1 - random());
}
