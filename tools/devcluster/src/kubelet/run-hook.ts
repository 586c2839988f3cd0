import { setTimeout as sleep } from "node:timers/promises";
import type { V1LifecycleHandler, V1Probe } from "@kubernetes/client-node";

/** Runs a lifecycle hook and returns whether it succeeded; a sleep always does. `ask` runs the actions that hooks share with probes. */
export async function runHook(
  { sleep: pause, exec, httpGet, tcpSocket }: V1LifecycleHandler,
  ask: (probe: V1Probe, timeoutMs: number) => Promise<boolean>,
  timeoutMs: number,
): Promise<boolean> {
  if (pause !== undefined) {
    await sleep(Math.min(timeoutMs, pause.seconds * 1000), undefined, { ref: false });
    return true;
  }
  const action = { ...(exec && { exec }), ...(httpGet && { httpGet }), ...(tcpSocket && { tcpSocket }) };
  return ask(action, timeoutMs);
}
