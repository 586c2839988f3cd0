import { assertNever, findFault, isRetryable } from "@muster/faults";
import type { Bucket, Entry, View } from "@muster/store";
import type { PublishedState, PublishStep } from "../domain/plan-publish.ts";
import type { WriteOutcome } from "../keep-published.ts";

/** The published states of one bucket, including our own last writes, and the function that writes them. */
export type StatePublication<State> = {
  published(): readonly PublishedState<State>[];
  get(key: string): PublishedState<State> | undefined;
  /** Returns whether the view shows our own last write of the key; false once `get` has detected this. */
  isEcho(key: string): boolean;
  write(step: PublishStep<State>): Promise<WriteOutcome>;
};

type OwnWrite<State> = { readonly revision: number; readonly state: State | undefined; readonly writtenAtMs: number };

/** Time after which a write that the view does not show counts as lost by a server, or the bucket counts as unreachable. */
const MAX_ECHO_DELAY_MS = 10_000;

/**
 * Creates the publication of one bucket. The view shows a write shortly after its acknowledgement. Until then our own writes replace the view's states;
 * otherwise the next pass would plan them again and conflict with itself.
 */
export function makePublication<State>(
  bucket: Pick<Bucket<State>, "create" | "update" | "delete">,
  view: Pick<View<State>, "get" | "entries">,
  onFault: (error: unknown, step: PublishStep<State>) => void,
  monotonicMs: () => number = () => performance.now(),
): StatePublication<State> {
  const own = new Map<string, OwnWrite<State>>();

  function ownOf(key: string): OwnWrite<State> | undefined {
    const write = own.get(key);
    if (write === undefined) return undefined;
    if (!isWriteVisible(write, view.get(key)) && monotonicMs() - write.writtenAtMs < MAX_ECHO_DELAY_MS) return write;
    own.delete(key);
    return undefined;
  }

  function get(key: string): PublishedState<State> | undefined {
    const write = ownOf(key);
    if (write !== undefined) return write.state && { key, revision: write.revision, state: write.state };
    const entry = view.get(key);
    return entry && toPublished(entry);
  }

  function published(): readonly PublishedState<State>[] {
    const ours = [...own.keys()].filter((key) => ownOf(key) !== undefined);
    const others = view.entries().filter(({ key }) => !own.has(key));
    return [...others.map(toPublished), ...ours.flatMap((key) => get(key) ?? [])];
  }

  function isEcho(key: string): boolean {
    const write = own.get(key);
    return write?.state !== undefined && write.revision === view.get(key)?.revision;
  }

  async function write(step: PublishStep<State>): Promise<WriteOutcome> {
    try {
      own.set(step.key, { ...(await send(bucket, step)), writtenAtMs: monotonicMs() });
      return "written";
    } catch (error) {
      const fault = findFault(error);
      if (fault?.code === "conflict" || fault?.code === "already_exists") {
        own.delete(step.key);
        return "lost";
      }
      if (fault === undefined) throw error;
      onFault(error, step);
      return isRetryable(fault) || fault.code === "limit_exceeded" ? "failed" : "refused";
    }
  }

  return { published, get, isEcho, write };
}

async function send<State>(
  bucket: Pick<Bucket<State>, "create" | "update" | "delete">,
  step: PublishStep<State>,
): Promise<Omit<OwnWrite<State>, "writtenAtMs">> {
  switch (step.kind) {
    case "put": {
      const { key, state, expectedRevision } = step;
      const revision =
        expectedRevision === undefined
          ? await bucket.create(key, state)
          : await bucket.update(key, state, expectedRevision);
      return { revision, state };
    }
    case "forget":
      await bucket.delete(step.key, step.expectedRevision);
      return { revision: step.expectedRevision, state: undefined };
    default:
      return assertNever(step);
  }
}

/** Returns whether the view shows this write or a later one. */
function isWriteVisible<State>(write: OwnWrite<State>, entry: Entry<State> | undefined): boolean {
  if (write.state === undefined) return entry === undefined || entry.revision > write.revision;
  return entry !== undefined && entry.revision >= write.revision;
}

function toPublished<State>({ key, value, revision }: Entry<State>): PublishedState<State> {
  return { key, state: value, revision };
}
