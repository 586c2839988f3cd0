import type { Stored } from "./adapters/records.ts";
import type { World } from "./adapters/views.ts";

const POLL_MS = 20_000;

export type Known = {
  readonly kind: "set" | "roll";
  readonly name: string;
  /** That the caller has seen; 0: none. */
  readonly afterRevision: number;
  readonly signal: AbortSignal;
};

/** Answers once the record has another revision than the caller knows, or after a while. It is read again only after a change of it. */
export async function laterThan<Record>(
  world: Pick<World, "onChange">,
  { kind, name, afterRevision, signal }: Known,
  read: () => Promise<Stored<Record>>,
): Promise<Stored<Record>> {
  const patience = AbortSignal.any([signal, AbortSignal.timeout(POLL_MS)]);
  for (;;) {
    const changed = Promise.withResolvers<undefined>();
    const give = (): void => changed.resolve(undefined);
    const stop = world.onChange((change) => {
      if (change.kind === kind && change.name === name) give();
    });
    patience.addEventListener("abort", give);
    try {
      const stored = await read();
      if (afterRevision === 0 || stored.revision !== afterRevision || patience.aborted) return stored;
      await changed.promise;
    } finally {
      stop();
      patience.removeEventListener("abort", give);
    }
  }
}
