type Contestants = { readonly bare: () => Promise<unknown>; readonly ours: () => Promise<unknown> };

const ROUNDS = 7;

/**
 * Runs both in turns and prints the middle of the ratios of neighbouring rounds: machines that do other things, too, change from second to second, and a ratio of two
 * rounds that follow one another means more than one of two averages.
 */
export async function compare(
  title: string,
  contestants: Contestants,
  options: { readonly inFlight: number; readonly count: number; readonly unit?: number },
): Promise<void> {
  const { inFlight, count, unit = 1 } = options;
  const rate = async (call: () => Promise<unknown>): Promise<number> => {
    let left = count;
    const lane = async (): Promise<void> => {
      while (left > 0) {
        left -= 1;
        await call();
      }
    };
    const startMs = performance.now();
    await Promise.all(Array.from({ length: inFlight }, lane));
    return (count * unit * 1000) / (performance.now() - startMs);
  };
  await rate(contestants.bare);
  await rate(contestants.ours);
  const bare: number[] = [];
  const ours: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    bare.push(await rate(contestants.bare));
    ours.push(await rate(contestants.ours));
  }
  const ratio = middle(ours.map((value, round) => value / (bare[round] ?? value)));
  const shown = [middle(bare), middle(ours)].map((value) => `${Math.round(value).toLocaleString("en")}/s`);
  console.log(`${title}: bare ${shown[0]}, ours ${shown[1]}, ratio ${ratio.toFixed(2)}`);
}

function middle(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}
