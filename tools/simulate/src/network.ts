import { describeFault, FaultError, faultOf } from "@muster/faults";
import type { Trace } from "./trace.ts";
import type { Process } from "./task-queue.ts";
import type { VirtualTime } from "./virtual-time.ts";
import { countFault, drawDelayMs, meets, type Dependency, type Weather } from "./weather.ts";

/** The way between processes and what they depend on. */
export type Network = {
  /** Sends a call, lets it have its effect over there, and brings the answer back; any part of that may fail or take long. */
  call<Result>(to: Dependency, what: string, effect: () => Result | Promise<Result>): Promise<Result>;
  /** Sends something that nobody answers. */
  send(to: Dependency, what: string, effect: () => void): void;
  /** Brings something to a process; what is on its way to one that dies is lost with it. */
  bring(to: Process | undefined, run: () => void): void;
};

/** A caller gives up on what is away after this time. */
const PATIENCE_MS = { least: 50, most: 5000 };

export function makeNetwork(time: VirtualTime, weather: Weather, trace: Trace): Network {
  const refuse = (to: Dependency): FaultError =>
    new FaultError({ code: "unavailable", dependency: to, retryAfterMs: 500 });
  const isAway = (to: Dependency): boolean => {
    if (weather.away.has(to)) countFault(weather, "dependency away");
    return weather.away.has(to);
  };
  return {
    call: (to, what, effect) => {
      const from = time.current();
      const who = from?.name ?? "world";
      // What the end of its connections makes of a dead process is nobody's business.
      if (from?.alive === false) return new Promise(() => undefined);
      return new Promise((resolve, reject) => {
        const answer = (delayMs: number, tell: () => void): void => void time.after(delayMs, from, tell);
        const failed = (delayMs: number, text: string): void => {
          trace.note(who, `${what}: ${text}`);
          answer(delayMs, () => reject(refuse(to)));
        };
        const patienceMs = (): number => weather.random.integer(PATIENCE_MS.least, PATIENCE_MS.most);
        const arrive = async (): Promise<void> => {
          if (isAway(to)) {
            failed(patienceMs(), `${to} is away`);
            return;
          }
          if (meets(weather, "call lost", weather.risks.lostBefore)) {
            failed(patienceMs(), "lost on the way");
            return;
          }
          try {
            const result = await effect();
            if (meets(weather, "answer lost", weather.risks.lostAfter)) {
              failed(patienceMs(), "done, and the answer is lost");
              return;
            }
            trace.note(who, what);
            answer(drawDelayMs(weather), () => resolve(result));
          } catch (error) {
            const fault = faultOf(error);
            trace.note(who, `${what}: ${fault === undefined ? String(error) : describeFault(fault)}`);
            answer(drawDelayMs(weather), () => reject(error instanceof Error ? error : new Error(String(error))));
          }
        };
        time.after(drawDelayMs(weather), undefined, () => void arrive());
      });
    },
    send: (to, what, effect) => {
      const from = time.current();
      const who = from?.name ?? "world";
      if (from?.alive === false) return;
      time.after(drawDelayMs(weather), undefined, () => {
        const lost = isAway(to) || meets(weather, "call lost", weather.risks.lostBefore);
        trace.note(who, lost ? `${what}: lost on the way` : what);
        if (!lost) effect();
      });
    },
    bring: (to, run) => void time.after(drawDelayMs(weather), to, run),
  };
}
