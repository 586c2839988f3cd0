import type { NatsConnection } from "@nats-io/nats-core";
import { openLog, type Log } from "../src/index.ts";
import type { Decision, LogConfig } from "../src/log-writer.ts";
import { makeJsonCodec } from "./connected.ts";

/** The simplest log: it remembers the notes, in order, and how often each note was taken. */
export type Note = { readonly text: string };
export type Journal = { readonly texts: readonly string[] };

export function openJournal(
  connection: NatsConnection,
  name: string,
  token: number,
  config: Partial<LogConfig<Journal, Note>> & {
    readonly snapshot?: { everyEntries?: number; keepEntries?: number };
  } = {},
): Promise<Log<Journal, Note>> {
  const { snapshot, ...rest } = config;
  return openLog<Journal, Note>(connection, {
    stream: { name, subject: `log.${name}` },
    events: makeJsonCodec<readonly Note[]>(),
    snapshots: { bucket: "snapshots", key: name, codec: makeJsonCodec<Journal>(), ...snapshot },
    initial: { texts: [] },
    evolve: (state, note) => ({ texts: [...state.texts, note.text] }),
    token,
    ...rest,
  });
}

/** Notes the texts as one decision; answers the number of earlier notes. */
export function note(...texts: readonly string[]): (state: Journal) => Decision<Note, number> {
  return (state) => ({ events: texts.map((text) => ({ text })), result: state.texts.length });
}
