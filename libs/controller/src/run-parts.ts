import type { ControllerLead } from "./controller.ts";

/**
 * Runs the parts of one lead concurrently; the first failure ends the lead of all. Resolves when every part has returned. Rejects with the first failure once
 * the others have ended, so that the caller may then release the lock.
 */
export async function runParts<Own extends ControllerLead & { readonly signal: AbortSignal }>(
  lead: Own,
  parts: readonly ((lead: Own) => Promise<void>)[],
): Promise<void> {
  const over = new AbortController();
  const own: Own = {
    ...lead,
    signal: AbortSignal.any([lead.signal, over.signal]),
    lost: AbortSignal.any([lead.lost, over.signal]),
    isHeld: () => lead.isHeld() && !over.signal.aborted,
  };
  const failures: unknown[] = [];
  const run = async (part: (lead: Own) => Promise<void>): Promise<void> => {
    try {
      await part(own);
    } catch (error) {
      failures.push(error);
      over.abort(error);
    }
  };
  await Promise.all(parts.map(run));
  if (failures.length > 0) throw failures[0];
}
