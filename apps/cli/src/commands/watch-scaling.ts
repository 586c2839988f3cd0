import { faultOf } from "@muster/faults";
import { demandScaling } from "../adapters/node-calls.ts";
import type { Cli } from "../cli.ts";
import { isFinished, type Work } from "../domain/work.ts";
import type { Link } from "../kinds/kind.ts";
import type { ProgressView } from "./progress-view.ts";

const ASK_EVERY_MS = 2000;
/** Of a scaler that does not answer, or knows of nothing that it could do. */
const ASK_SELDOM_MS = 30_000;
/** Asked about in one turn; the others follow when these wait no more. */
const ASKED_MAX = 20;

/** Tells the view what is done about the nodes that work waits for, until the signal. Where nobody makes nodes it says nothing. */
export async function watchScaling(
  { cli, link, view }: { readonly cli: Cli; readonly link: Link; readonly view: Pick<ProgressView, "scaling"> },
  works: () => Iterable<Work>,
  signal: AbortSignal,
): Promise<void> {
  const stopped = (): boolean => signal.aborted;
  let pauseMs = ASK_EVERY_MS;
  for (;;) {
    await cli.pause(pauseMs, signal);
    if (stopped()) return;
    const waiting = [...works()].filter((work) => work.waitingBecause !== "" && !isFinished(work));
    let known = waiting.length === 0;
    for (const work of waiting.slice(0, ASKED_MAX)) {
      const scaling = await ask({ ...link, stop: signal }, work);
      if (scaling === undefined) return;
      if (scaling.state !== "known") continue;
      known = true;
      view.scaling(work, scaling);
    }
    pauseMs = known ? ASK_EVERY_MS : Math.min(pauseMs * 2, ASK_SELDOM_MS);
  }
}

/** Undefined once the signal is aborted. */
async function ask(link: Link, { owner }: Work) {
  try {
    return await demandScaling(link, owner);
  } catch (error) {
    if (link.stop.aborted && faultOf(error) !== undefined) return undefined;
    throw error;
  }
}
