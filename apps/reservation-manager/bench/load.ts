import { readFileSync } from "node:fs";
import { performance } from "node:perf_hooks";
import { selectSize } from "@muster/testkit";

/** Maximum number of calls in flight. */
export const IN_FLIGHT = 256;
const WARM_UP_MS = selectSize(1000, 100);

/** Measures the answered calls per second with `IN_FLIGHT` calls in flight, after a warm-up. */
export async function measureRate(
  call: (worker: number, turn: number) => Promise<unknown>,
  seconds = selectSize(4, 0.5),
): Promise<number> {
  let answered = 0;
  const begin = performance.now() + WARM_UP_MS;
  const end = begin + seconds * 1000;
  const work = async (worker: number): Promise<void> => {
    for (let turn = 0; performance.now() < end; turn += 1) {
      await call(worker, turn);
      if (performance.now() >= begin) answered += 1;
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, (_, worker) => work(worker)));
  return answered / seconds;
}

/** Linux reports processor time to programs in ticks of this length. */
const TICK_MS = 10;

/** Returns the processor time of a process in ms, which does not depend on the load of the machine. NaN where /proc is missing. */
export function readCpuMs(pid: number | undefined): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
    return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
  } catch {
    return Number.NaN;
  }
}

/** Returns the resident memory of a process in MiB. NaN where /proc is missing. */
export function readResidentMiB(pid: number | undefined): number {
  try {
    const kib = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
    return Math.round(Number(kib) / 1024);
  } catch {
    return Number.NaN;
  }
}
