import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { isForbidden, isNoResponders, type NatsBus } from "@muster/bus";
import { subjects } from "@muster/proto";
import { CommandError } from "../command-error.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { describeConnection, type Connection } from "../domain/decide-connection.ts";
import type { StreamHead } from "./backup-order.ts";

/** Copies whole streams as the user `backup`. Every call rejects with CommandError. */
export type StreamCopies = AsyncDisposable & {
  /** Returns undefined if the stream does not exist. */
  readonly inspect: (stream: string) => Promise<StreamHead | undefined>;
  /**
   * Copies the stream at one moment, with its consumers: its head first, then its bytes in order. False means that the stream does not exist, and no callback
   * was called.
   */
  readonly take: (
    stream: string,
    onHead: (head: StreamHead) => Promise<void>,
    onBytes: (bytes: Uint8Array) => Promise<void>,
  ) => Promise<boolean>;
  /** Creates the stream from the copy, including message sequences, with one replica. The services later set their own number of replicas. */
  readonly put: (head: StreamHead, chunks: AsyncIterable<Uint8Array>) => Promise<void>;
};

export const BACKUP_USER = "backup";

const INSPECT_TIMEOUT_MS = 5000;
/** The timeout is long because NATS reads the whole stream before it answers. */
const ANSWER_MS = 60_000;
/** Time without progress after which a transfer fails. */
const IDLE_MS = 30_000;
/** In a cluster the answer with the subject for chunks can arrive before the server knows the subscription to that subject. */
const MAX_UNHEARD_MS = 10_000;
const RETRY_MS = 50;
const CHUNK_BYTES = 64 * 1024;
const NOT_FOUND = 10059;

const KEY_HINT = `MUSTER_NATS_NKEY_FILE must name the key file of that user, ${BACKUP_USER}.nk: see docs/operations.md`;

type Answer<Fields> = { readonly error?: { readonly description?: string; readonly err_code?: number } } & Fields;

/** Copies streams over `bus`, the connection to `from`. */
export function makeStreamCopies(bus: NatsBus, from: Connection, stop: AbortSignal): StreamCopies {
  const { connection } = bus;
  const { ask, send } = requestsOf(bus, from, stop);
  return {
    inspect: async (stream) => {
      const { error, ...head } = await ask<StreamHead>(`$JS.API.STREAM.INFO.${stream}`, {}, INSPECT_TIMEOUT_MS);
      if (error?.err_code === NOT_FOUND) return undefined;
      if (error !== undefined) throw refused(`reading the state of ${stream}`, error);
      return head;
    },
    take: async (stream, onHead, onBytes) => {
      const inbox = `${subjects.inbox(BACKUP_USER)}.${randomUUID()}`;
      const pieces = connection.subscribe(inbox);
      const watch = idleTimer(() => {
        pieces.unsubscribe();
      });
      try {
        const request = { deliver_subject: inbox, no_consumers: false, chunk_size: CHUNK_BYTES, jsck: true };
        const { error, config, state } = await ask<StreamHead>(`$JS.API.STREAM.SNAPSHOT.${stream}`, request);
        if (error?.err_code === NOT_FOUND) return false;
        if (error !== undefined) throw refused(`copying ${stream}`, error);
        await onHead({ config, state });
        for await (const piece of pieces) {
          if (stop.aborted) throw new CommandError(EXIT.interrupted, "interrupted");
          if (piece.data.length === 0) {
            const { code = 0, description } = piece.headers ?? {};
            if (code >= 400) throw refused(`copying ${stream}`, { description });
            return true;
          }
          watch.touch();
          await onBytes(piece.data);
          piece.respond();
        }
        throw new CommandError(EXIT.unreachable, `copying ${stream}: no data for ${IDLE_MS / 1000} s`);
      } finally {
        watch.end();
        pieces.unsubscribe();
      }
    },
    put: async ({ config, state }, chunks) => {
      const doing = `restoring ${config.name}`;
      const request = { config: { ...config, num_replicas: 1 }, state };
      const subject = `$JS.API.STREAM.RESTORE.${config.name}`;
      const { error, deliver_subject: to } = await ask<{ readonly deliver_subject: string }>(subject, request);
      if (error !== undefined) throw refused(doing, error);
      for await (const chunk of chunks) {
        const taken = await send(to, chunk);
        if (taken.error !== undefined) throw refused(doing, taken.error);
      }
      const made = await send(to, new Uint8Array());
      if (made.error !== undefined) throw refused(doing, made.error);
    },
    [Symbol.asyncDispose]: () => bus[Symbol.asyncDispose](),
  };
}

/** `send` retries while the subject has no subscriber. Both reject with CommandError. */
function requestsOf({ connection }: Pick<NatsBus, "connection">, from: Connection, stop: AbortSignal) {
  const ask = async <Fields>(
    subject: string,
    body: object | Uint8Array,
    timeout = ANSWER_MS,
  ): Promise<Answer<Fields>> => {
    if (stop.aborted) throw new CommandError(EXIT.interrupted, "interrupted");
    const payload = body instanceof Uint8Array ? body : JSON.stringify(body);
    try {
      const reply = await connection.request(subject, payload, { timeout });
      // NATS defines the format of the answers (io.nats.jetstream.api.v1), and acknowledges a chunk with an empty one.
      return reply.data.length === 0 ? ({} as Answer<Fields>) : reply.json<Answer<Fields>>();
    } catch (cause) {
      throw unanswered(subject, from, cause);
    }
  };
  const send = async (to: string, piece: Uint8Array): Promise<Answer<object>> => {
    const end = performance.now() + MAX_UNHEARD_MS;
    for (;;) {
      try {
        return await ask<object>(to, piece);
      } catch (error) {
        const isUnheard = error instanceof CommandError && isNoResponders(error.cause);
        if (!isUnheard || performance.now() > end) throw error;
      }
      await sleep(RETRY_MS);
    }
  };
  return { ask, send };
}

function idleTimer(onIdle: () => void): { readonly touch: () => void; readonly end: () => void } {
  // The first timeout is longer, because NATS reads the stream before it sends.
  let idle = setTimeout(onIdle, ANSWER_MS + IDLE_MS);
  return {
    touch: () => {
      clearTimeout(idle);
      idle = setTimeout(onIdle, IDLE_MS);
    },
    end: () => {
      clearTimeout(idle);
    },
  };
}

function refused(doing: string, error: { readonly description?: string | undefined }): CommandError {
  return new CommandError(EXIT.refused, `${doing}: NATS answers: ${error.description ?? "no"}`);
}

function unanswered(subject: string, from: Connection, cause: unknown): CommandError {
  if (isForbidden(cause))
    return new CommandError(
      EXIT.refused,
      `NATS at ${describeConnection(from)} permits it only to the user \`${BACKUP_USER}\`, and the key is that of another`,
      { hint: from.because === "local stack" ? from.keysHint : KEY_HINT, cause },
    );
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new CommandError(EXIT.unreachable, `asking ${subject}: ${reason}`, {
    hint: from.hint,
    cause,
  });
}
