import { throwFault } from "@muster/faults";

/** Throws FaultError unavailable in a process that no longer leads, because a suspended process may not know yet that it lost the lead. */
export function checkHeld(isHeld: () => boolean): void {
  if (!isHeld()) throwFault({ code: "unavailable", dependency: "the leadership of the nodes", retryAfterMs: 0 });
}
