import { createHash, randomUUID } from "node:crypto";
import { deflateRawSync, inflateRawSync } from "node:zlib";
import { RequestRates, type NatsBus, type Refusal } from "@muster/bus";
import { findFault, throwFault } from "@muster/faults";
import { buckets } from "@muster/proto";
import type { Logger } from "@muster/service";
import { openBucket, type Bucket, type Codec } from "@muster/store";
import type { User } from "../api/user.ts";
import { decideRepeat, type KeptAnswer, type KeptRequest } from "../domain/decide-repeat.ts";

/** Time for which an answer is kept after its last write. */
const KEPT_MS = 24 * 3_600_000;
/** Maximum size of the bucket: about a hundred thousand requests. */
const BUCKET_BYTES = 128 * 1024 * 1024;
/** Retry hint when the bucket is full: some entries have expired by then. */
const FULL_RETRY_MS = 60_000;
/** Maximum size of a compressed entry. */
const MAX_ENTRY_BYTES = 64 * 1024;
/** The size of an entry without an answer, with its subject and headers. */
const OPEN_ENTRY_BYTES = 512;
/** Bytes that one user may fill in one process: immediately, and again after the first entries expire. */
const SHARE_BYTES = 16 * 1024 * 1024;
const SHARE = { perSecond: (SHARE_BYTES * 1000) / KEPT_MS, burst: SHARE_BYTES };
/** Maximum users with a separate share; further users share one share. */
const MAX_SHARES = 10_000;
/** Maximum reads of an entry: a read that finds the entry expired is retried. */
const MAX_ATTEMPTS = 3;

/** The next step for a request with a key. */
export type Begun =
  | { readonly kind: "differs" }
  | { readonly kind: "answered"; readonly answer: KeptAnswer }
  | {
      readonly kind: "open";
      readonly requestId: string;
      /** Keeps the answer, and resolves with the answer that every repetition gets: that of another gateway if it was faster. Never rejects. */
      keep(answer: KeptAnswer): Promise<KeptAnswer>;
    };

export type KeptRequests = {
  /** Registers the key. Rejects with FaultError unavailable, or limit_exceeded for a new key if the bucket is full or the user's share is used up. */
  begin(user: User, key: string, digest: string): Promise<Begun>;
};

/** Opens requests with a key, in a bucket that all gateways share: an answer of one gateway is the answer of each. */
export async function openKeptRequests(
  connection: NatsBus["connection"],
  logger: Pick<Logger, "warn">,
): Promise<KeptRequests> {
  const bucket = await openBucket(connection, {
    name: buckets.apiRequests,
    codec: keptCodec,
    maxBytes: BUCKET_BYTES,
    maxValueBytes: MAX_ENTRY_BYTES,
    ttlMs: KEPT_MS,
    fullRetryAfterMs: FULL_RETRY_MS,
  });
  const shares = new RequestRates(SHARE, MAX_SHARES);
  const take = (user: User, bytes: number) => shares.take(user.name, performance.now(), bytes);
  return {
    begin: async (user, key, digest) => {
      const refusal = take(user, OPEN_ENTRY_BYTES);
      if (refusal?.reportRefused !== undefined)
        logger.warn(
          { user: refusal.user, refused: refusal.reportRefused },
          "a user has used up its share of requests with an idempotency key and is refused",
        );
      // Different users have different digests, and the bucket contains no readable key.
      const name = digestOf([user.name, user.uid ?? "", key]);
      for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
        const made: KeptRequest = { digest, requestId: randomUUID() };
        const revision = refusal === undefined ? await createUnlessKnown(bucket, name, made) : undefined;
        const entry = revision === undefined ? await bucket.get(name) : { value: made, revision };
        if (entry === undefined && refusal !== undefined) refuseShare(refusal.retryAfterMs);
        if (entry === undefined) continue;
        const repeat = decideRepeat(entry.value, digest);
        if (repeat.kind !== "unanswered") return repeat;
        const keep = (answer: KeptAnswer) =>
          keepAnswer(bucket, { name, ...entry }, answer, {
            logger,
            take: (bytes) => take(user, bytes),
          });
        return { kind: "open", requestId: repeat.requestId, keep };
      }
      return throwFault({ code: "unavailable", dependency: `bucket ${bucket.name}`, retryAfterMs: 0 });
    },
  };
}

function refuseShare(retryAfterMs: number): never {
  return throwFault({
    code: "limit_exceeded",
    what: "the size of your requests with an Idempotency-Key",
    limit: SHARE_BYTES,
    retryAfterMs,
  });
}

/** Returns the digest of the value; equal values have equal digests. */
export function digestOf(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("hex");
}

/** Creates the entry and returns its revision; undefined if the key already exists. */
async function createUnlessKnown(
  bucket: Bucket<KeptRequest>,
  name: string,
  value: KeptRequest,
): Promise<number | undefined> {
  try {
    return await bucket.create(name, value);
  } catch (error) {
    if (findFault(error)?.code === "already_exists") return undefined;
    throw error;
  }
}

async function keepAnswer(
  bucket: Bucket<KeptRequest>,
  { name, value, revision }: { readonly name: string; readonly value: KeptRequest; readonly revision: number },
  answer: KeptAnswer,
  { logger, take }: { readonly logger: Pick<Logger, "warn">; readonly take: (bytes: number) => Refusal | undefined },
): Promise<KeptAnswer> {
  try {
    const refusal = take(keptCodec.encode({ ...value, answer }).length);
    if (refusal !== undefined) refuseShare(refusal.retryAfterMs);
    await bucket.update(name, { ...value, answer }, revision);
    return answer;
  } catch (error) {
    const faster = findFault(error)?.code === "conflict" ? await bucket.get(name).catch(() => undefined) : undefined;
    if (faster?.value.answer !== undefined) return faster.value.answer;
    logger.warn(
      { err: error, requestId: value.requestId },
      "an answer is not kept; a repetition asks the service again",
    );
    return answer;
  }
}

/** Encodes JSON with a compressed answer, which is the largest part of an entry. */
const keptCodec: Codec<KeptRequest> = {
  encode: ({ answer, ...kept }) => {
    const packed = answer && { status: answer.status, body: deflateRawSync(answer.body).toString("base64") };
    return new TextEncoder().encode(JSON.stringify({ ...kept, answer: packed }));
  },
  decode: (bytes) => {
    const { answer, ...kept } = JSON.parse(new TextDecoder().decode(bytes)) as KeptRequest;
    const body = answer && inflateRawSync(Buffer.from(answer.body, "base64")).toString();
    return { ...kept, answer: answer && { status: answer.status, body: body ?? "" } };
  },
};
