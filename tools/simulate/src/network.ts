import { describeFault, FaultError, findFault } from "@muster/faults";
import type { Trace } from "./trace.ts";
import type { Process } from "./task-queue.ts";
import type { VirtualTime } from "./virtual-time.ts";
import { countFault, drawDelayMs, drawFault, type Dependency, type FaultRisks } from "./fault-risks.ts";

/** The network between processes and their dependencies. */
export type Network = {
  /** Sends a call, applies its effect at the dependency, and delivers the answer. Each part may fail or take long. */
  call<Result>(to: Dependency, name: string, effect: () => Result | Promise<Result>): Promise<Result>;
  /** Sends a message without an answer. */
  send(to: Dependency, name: string, effect: () => void): void;
  /** Delivers a message to a process. It is lost when the process dies first. */
  deliver(to: Process | undefined, run: () => void): void;
};

/** Time until a caller gives up on an unreachable dependency. */
const PATIENCE_MS = { min: 50, max: 5000 };

export function makeNetwork(time: VirtualTime, weather: FaultRisks, trace: Trace): Network {
  const refuse = (to: Dependency): FaultError =>
    new FaultError({ code: "unavailable", dependency: to, retryAfterMs: 500 });
  const isUnreachable = (to: Dependency): boolean => {
    if (weather.away.has(to)) countFault(weather, "dependency away");
    return weather.away.has(to);
  };
  return {
    call: (to, name, effect) => {
      const from = time.current();
      const who = from?.name ?? "world";
      // A dead process gets no errors about its connections.
      if (from?.alive === false) return new Promise(() => undefined);
      return new Promise((resolve, reject) => {
        const answer = (delayMs: number, deliver: () => void): void => void time.after(delayMs, from, deliver);
        const failed = (delayMs: number, text: string): void => {
          trace.note(who, `${name}: ${text}`);
          answer(delayMs, () => reject(refuse(to)));
        };
        const patienceMs = (): number => weather.random.integer(PATIENCE_MS.min, PATIENCE_MS.max);
        const arrive = async (): Promise<void> => {
          if (isUnreachable(to)) {
            failed(patienceMs(), `${to} is unreachable`);
            return;
          }
          if (drawFault(weather, "call lost", weather.risks.lostBefore)) {
            failed(patienceMs(), "lost on the way");
            return;
          }
          try {
            const result = await effect();
            if (drawFault(weather, "answer lost", weather.risks.lostAfter)) {
              failed(patienceMs(), "applied, but the answer is lost");
              return;
            }
            trace.note(who, name);
            answer(drawDelayMs(weather), () => resolve(result));
          } catch (error) {
            const fault = findFault(error);
            trace.note(who, `${name}: ${fault === undefined ? String(error) : describeFault(fault)}`);
            answer(drawDelayMs(weather), () => reject(error instanceof Error ? error : new Error(String(error))));
          }
        };
        time.after(drawDelayMs(weather), undefined, () => void arrive());
      });
    },
    send: (to, name, effect) => {
      const from = time.current();
      const who = from?.name ?? "world";
      if (from?.alive === false) return;
      time.after(drawDelayMs(weather), undefined, () => {
        const lost = isUnreachable(to) || drawFault(weather, "call lost", weather.risks.lostBefore);
        trace.note(who, lost ? `${name}: lost on the way` : name);
        if (!lost) effect();
      });
    },
    deliver: (to, run) => void time.after(drawDelayMs(weather), to, run),
  };
}
