import { selectSize } from "@muster/testkit";
type Contestants = { readonly bare: () => Promise<unknown>; readonly ours: () => Promise<unknown> };

const ROUNDS = selectSize(5, 1);

type Round = { readonly perSecond: number; readonly cpuMicros: number };

/**
 * Runs both in turns and prints the median ratio of neighbouring rounds, because the load of the machine changes from second to second. Also prints the
 * processor time of this process for each operation, which the other load hardly affects.
 */
export async function compare(
  title: string,
  contestants: Contestants,
  options: { readonly inFlight: number; readonly count: number; readonly unit?: number },
): Promise<void> {
  const { inFlight, unit = 1 } = options;
  const count = selectSize(options.count, Math.ceil(options.count / 20));
  const measure = async (call: () => Promise<unknown>): Promise<Round> => {
    let left = count;
    const lane = async (): Promise<void> => {
      while (left > 0) {
        left -= 1;
        await call();
      }
    };
    const startMs = performance.now();
    const startCpu = process.cpuUsage();
    await Promise.all(Array.from({ length: inFlight }, lane));
    const { user, system } = process.cpuUsage(startCpu);
    const perSecond = (count * unit * 1000) / (performance.now() - startMs);
    return { perSecond, cpuMicros: (user + system) / (count * unit) };
  };
  await measure(contestants.bare);
  await measure(contestants.ours);
  const rounds: { readonly bare: Round; readonly ours: Round }[] = [];
  for (let round = 0; round < ROUNDS; round += 1)
    rounds.push({ bare: await measure(contestants.bare), ours: await measure(contestants.ours) });
  const rate = (of: "bare" | "ours"): string =>
    `${Math.round(middle(rounds.map((round) => round[of].perSecond))).toLocaleString("en")}/s`;
  const cpu = (of: "bare" | "ours"): string => `${middle(rounds.map((round) => round[of].cpuMicros)).toFixed(1)} us`;
  const ratio = middle(rounds.map(({ bare, ours }) => ours.perSecond / bare.perSecond)).toFixed(2);
  const cpuRatio = middle(rounds.map(({ bare, ours }) => bare.cpuMicros / ours.cpuMicros)).toFixed(2);
  console.log(`${title}: bare ${rate("bare")} (${cpu("bare")}), ours ${rate("ours")} (${cpu("ours")})`);
  console.log(`  ratio ${ratio}, by processor time ${cpuRatio}`);
}

function middle(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}
