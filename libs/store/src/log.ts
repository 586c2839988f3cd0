import { randomUUID } from "node:crypto";
import type { NatsConnection } from "@nats-io/nats-core";
import { throwFault } from "@muster/faults";
import { openSnapshots, type Snapshot } from "./log-snapshots.ts";
import { openLogStream, type LogEntry, type LogStream } from "./log-stream.ts";
import { LogWriter, type Log, type LogConfig } from "./log-writer.ts";

/**
 * Opens the log for writing: reads the snapshot, appends a fencing entry that makes the server refuse an older writer, and reads the tail up to it. Rejects
 * with FaultError conflict if a writer with a larger token has written, and unavailable if the server does not answer. Rejects with a plain Error if the log is
 * damaged: an entry is missing or does not decode.
 */
export async function openLog<State, Event>(
  connection: NatsConnection,
  config: LogConfig<State, Event>,
): Promise<Log<State, Event>> {
  const { name } = config.stream;
  const stream = await openLogStream(connection, config.stream, { token: config.token, id: randomUUID() });
  await stream.ensure();
  refuseIfStale(config, await stream.lastToken());
  const snapshots = await openSnapshots(connection, config.snapshots);
  const fence = await stream.fence(config.events.encode([]));
  // Reads the snapshot after the fence, so that every write of an older writer precedes it.
  let snapshot = await snapshots.read();
  for (;;) {
    if (snapshot !== undefined && snapshot.sequence > fence)
      throw new Error(`log ${name} ends at ${fence}, before its snapshot at ${snapshot.sequence}: entries were lost`);
    try {
      const recovered = await replay(stream, config, snapshot, fence);
      return new LogWriter(connection, { config, stream, snapshots, recovered, snapshotAt: snapshot?.sequence ?? 0 });
    } catch (error) {
      // The older writer may have written a snapshot and dropped the entries during our read.
      const newer = await snapshots.read();
      if (newer?.sequence === snapshot?.sequence) throw error;
      snapshot = newer;
    }
  }
}

async function replay<State, Event>(
  stream: LogStream,
  config: LogConfig<State, Event>,
  snapshot: Snapshot<State> | undefined,
  fence: number,
): Promise<Snapshot<State>> {
  let state = snapshot?.state ?? config.initial;
  for await (const entry of stream.read((snapshot?.sequence ?? 0) + 1, fence)) {
    refuseIfStale(config, entry.token);
    for (const event of decodeEntry(config, entry)) state = config.evolve(state, event);
  }
  return { state, sequence: fence };
}

function decodeEntry<State, Event>(config: LogConfig<State, Event>, entry: LogEntry): readonly Event[] {
  try {
    return config.events.decode(entry.bytes);
  } catch (error) {
    throw new Error(`decoding entry ${entry.sequence} of log ${config.stream.name}`, { cause: error });
  }
}

function refuseIfStale<State, Event>(config: LogConfig<State, Event>, token: number): void {
  if (token <= config.token) return;
  throwFault(
    { code: "conflict", id: config.stream.name, expectedRevision: config.token, actualRevision: token },
    { doing: "opening a log under a lead that is over" },
  );
}
