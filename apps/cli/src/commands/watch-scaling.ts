import { findFault } from "@muster/faults";
import { readDemandScaling } from "../adapters/node-calls.ts";
import type { Cli } from "../cli.ts";
import { isFinished, type Work } from "../domain/work.ts";
import { isAborted } from "../is-aborted.ts";
import type { ServiceLink } from "../kinds/kind.ts";
import type { ProgressView } from "./progress-view.ts";

const POLL_MS = 2000;
/** The poll interval while the scaler does not answer, or knows no need. */
const MAX_POLL_MS = 30_000;
/** Limits the work in one round; other work follows when this work no longer waits. */
const MAX_WORKS = 20;

/** Reports to the view what the scaler does about the nodes that work waits for, until the signal is aborted. Reports nothing without a scaler. */
export async function watchScaling(
  { cli, link, view }: { readonly cli: Cli; readonly link: ServiceLink; readonly view: Pick<ProgressView, "scaling"> },
  works: () => Iterable<Work>,
  signal: AbortSignal,
): Promise<void> {
  let pauseMs = POLL_MS;
  for (;;) {
    await cli.pause(pauseMs, signal);
    if (isAborted(signal)) return;
    const waiting = [...works()].filter((work) => work.waitingBecause !== "" && !isFinished(work));
    let isKnown = waiting.length === 0;
    for (const work of waiting.slice(0, MAX_WORKS)) {
      const scaling = await readScaling({ ...link, stop: signal }, work);
      if (scaling === undefined) return;
      if (scaling.state !== "known") continue;
      isKnown = true;
      view.scaling(work, scaling);
    }
    pauseMs = isKnown ? POLL_MS : Math.min(pauseMs * 2, MAX_POLL_MS);
  }
}

/** Returns undefined once the signal is aborted. */
async function readScaling(link: ServiceLink, { owner }: Work) {
  try {
    return await readDemandScaling(link, owner);
  } catch (error) {
    if (link.stop.aborted && findFault(error) !== undefined) return undefined;
    throw error;
  }
}
