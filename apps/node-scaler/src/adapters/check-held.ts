import { throwFault } from "@muster/faults";

/** Throws FaultError unavailable in a process that no longer leads: a suspended process may not know that yet. */
export function checkHeld(isHeld: () => boolean): void {
  if (!isHeld()) throwFault({ code: "unavailable", dependency: "the leadership of the nodes", retryAfterMs: 0 });
}
