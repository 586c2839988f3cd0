import { readBackup, writeBackup, type BackupWriter } from "../adapters/backup-file.ts";
import type { StreamCopies } from "../adapters/stream-copies.ts";
import type { Cli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { orderBackupStreams, type BackupGroup } from "../adapters/backup-order.ts";
import { formatCount } from "../domain/plural.ts";

/** A busy ledger writes a snapshot every few seconds; copying it takes less. */
const ATTEMPTS = 10;

/** `muster backup FILE`: copies all state of Muster in NATS while the services run. */
export async function backUpStreams(cli: Cli, file: string): Promise<ExitCode> {
  await using copies = await cli.streamCopies();
  await using writer = await writeBackup(file, cli.now());
  let messages = 0;
  let streams = 0;
  for (const group of orderBackupStreams()) {
    const copied = await copyGroup(copies, writer, group);
    streams += copied.streams;
    messages += copied.messages;
  }
  if (streams === 0)
    throw new CommandError(EXIT.failed, "there is nothing to copy: NATS has no stream of Muster", {
      hint: "check MUSTER_NATS_URL, the address of the NATS server",
    });
  await writer.finish();
  cli.io.out([`${file}: ${formatCount(streams, "stream")} with ${formatCount(messages, "message")}`]);
  return EXIT.ok;
}

type Copied = { readonly streams: number; readonly messages: number };

async function copyGroup(copies: StreamCopies, writer: BackupWriter, group: BackupGroup): Promise<Copied> {
  const { steady } = group;
  const mark = writer.mark();
  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    const before = await lastOf(copies, steady);
    let streams = 0;
    let messages = 0;
    for (const stream of group.streams) {
      const isFound = await copies.take(
        stream,
        async (head) => {
          messages += head.state.messages ?? 0;
          await writer.head(head);
        },
        writer.bytes,
      );
      if (!isFound) continue;
      await writer.endStream();
      streams += 1;
    }
    if ((await lastOf(copies, steady)) === before) return { streams, messages };
    mark.rewind();
  }
  throw new CommandError(EXIT.failed, `${steady ?? ""} was written during every attempt to copy the ledger`, {
    hint: "try again, or stop the reservation manager during the backup",
  });
}

async function lastOf(copies: StreamCopies, stream: string | undefined): Promise<number | undefined> {
  return stream === undefined ? undefined : (await copies.inspect(stream))?.state.last_seq;
}

/** `muster backup --check FILE`: checks the file as a restore would, without NATS. */
export async function checkBackup(cli: Cli, file: string): Promise<ExitCode> {
  const { at, streams } = await readThrough(file);
  cli.io.out([`${file} is complete: ${formatCount(streams, "stream")} as of ${at}`]);
  return EXIT.ok;
}

/** `muster restore FILE`: restores a backup into a NATS without any state of Muster. */
export async function restoreBackup(cli: Cli, file: string): Promise<ExitCode> {
  // A damaged file is refused before anything is written, because a partial restore is worse than none.
  const { at, streams } = await readThrough(file);
  await using reader = await readBackup(file);
  await using copies = await cli.streamCopies();
  await refuseFilled(copies);
  let made = 0;
  try {
    for await (const { head, chunks } of reader.streams()) {
      await copies.put(head, chunks);
      made += 1;
    }
  } catch (error) {
    throw error instanceof CommandError ? partialRestore(error, made, streams) : error;
  }
  cli.io.out([`${formatCount(made, "stream")} as of ${at}; start the services`]);
  return EXIT.ok;
}

async function refuseFilled(copies: StreamCopies): Promise<void> {
  const found: string[] = [];
  for (const stream of orderBackupStreams().flatMap((group) => group.streams)) {
    if ((await copies.inspect(stream)) !== undefined) found.push(stream);
  }
  if (found.length === 0) return;
  throw new CommandError(
    EXIT.refused,
    `NATS has ${formatCount(found.length, "stream")} of Muster: ${found.join(", ")}`,
    {
      hint: "stop the services, which make their streams when they start, and give NATS an empty volume; an interrupted restore leaves streams, too",
    },
  );
}

/** Services that start on a partial restore would remove the pods of missing records. */
function partialRestore(cause: CommandError, made: number, streams: number): CommandError {
  return new CommandError(cause.exitCode, `${cause.message}; NATS holds ${made} of ${formatCount(streams, "stream")}`, {
    hint: "start no service; give NATS an empty volume and run the restore again",
    cause,
  });
}

/** Rejects with CommandError if any byte differs from the bytes that `muster backup` wrote. */
async function readThrough(file: string): Promise<{ readonly at: string; readonly streams: number }> {
  await using reader = await readBackup(file);
  let streams = 0;
  for await (const { chunks } of reader.streams()) {
    for await (const _ of chunks);
    streams += 1;
  }
  return { at: reader.at, streams };
}
