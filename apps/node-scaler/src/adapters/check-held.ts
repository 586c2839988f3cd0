import { throwFault } from "@muster/faults";

/** Throws FaultError unavailable in a process that leads no more: one that was stopped for a while may not have heard of it. */
export function checkHeld(isHeld: () => boolean): void {
  if (!isHeld()) throwFault({ code: "unavailable", dependency: "the leadership of the nodes", retryAfterMs: 0 });
}
