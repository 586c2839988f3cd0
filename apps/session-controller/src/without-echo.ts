import type { SessionDeps } from "./session-deps.ts";

/**
 * Suppresses the echoes of own writes: views often show a write before the store acknowledges it. A newer revision seen meanwhile schedules a pass after the
 * acknowledgement.
 */
export function withoutEcho(outside: SessionDeps): {
  readonly deps: SessionDeps;
  readonly writing: ReadonlySet<string>;
} {
  const writing = new Set<string>();
  const save: SessionDeps["save"] = async (record, revision) => {
    const { name } = record;
    let saved = revision;
    writing.add(name);
    try {
      saved = await outside.save(record, revision);
      return saved;
    } finally {
      writing.delete(name);
      if (outside.newestRevision(name) > saved) outside.wake(name);
    }
  };
  return { deps: { ...outside, save }, writing };
}
