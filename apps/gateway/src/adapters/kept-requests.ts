import { createHash, randomUUID } from "node:crypto";
import { deflateRawSync, inflateRawSync } from "node:zlib";
import type { NatsBus } from "@muster/bus";
import { faultOf, throwFault } from "@muster/faults";
import { buckets } from "@muster/proto";
import type { Logger } from "@muster/service";
import { openBucket, type Bucket, type Codec } from "@muster/store";
import type { User } from "../api/user.ts";
import { decideRepeat, type KeptAnswer, type KeptRequest } from "../domain/decide-repeat.ts";

/** From the last write: an answer is kept as long. */
const KEPT_MS = 24 * 3_600_000;
/** About a hundred thousand requests. */
const BUCKET_BYTES = 128 * 1024 * 1024;
/** Retry hint at that limit: by then some entries have expired. */
const FULL_RETRY_MS = 60_000;
/** An entry may expire between two looks at it. */
const MAX_ATTEMPTS = 3;

/** What a request with a key has to do. */
export type Begun =
  | { readonly kind: "differs" }
  | { readonly kind: "answered"; readonly answer: KeptAnswer }
  | {
      readonly kind: "open";
      readonly requestId: string;
      /** Keeps the answer, and resolves with the one that every repetition gets: that of another gateway where it was faster. Never rejects. */
      keep(answer: KeptAnswer): Promise<KeptAnswer>;
    };

export type KeptRequests = {
  /** Rejects with FaultError unavailable, or limit_exceeded where the bucket is full. */
  begin(user: User, key: string, digest: string): Promise<Begun>;
};

/** Requests with a key, in a bucket that all gateways share: an answer at one of them is the answer at each. */
export async function openKeptRequests(
  connection: NatsBus["connection"],
  logger: Pick<Logger, "warn">,
): Promise<KeptRequests> {
  const bucket = await openBucket(connection, {
    name: buckets.apiRequests,
    codec: keptCodec,
    maxBytes: BUCKET_BYTES,
    ttlMs: KEPT_MS,
    fullRetryAfterMs: FULL_RETRY_MS,
  });
  return {
    begin: async (user, key, digest) => {
      // Keys of different users never meet, and none is readable in the bucket.
      const name = digestOf([user.name, user.uid ?? "", key]);
      for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
        const made: KeptRequest = { digest, requestId: randomUUID() };
        const revision = await createUnlessKnown(bucket, name, made);
        const entry = revision === undefined ? await bucket.get(name) : { value: made, revision };
        if (entry === undefined) continue;
        const repeat = decideRepeat(entry.value, digest);
        if (repeat.kind !== "unanswered") return repeat;
        const keep = (answer: KeptAnswer) => keepAnswer(bucket, { name, ...entry }, answer, logger);
        return { kind: "open", requestId: repeat.requestId, keep };
      }
      return throwFault({ code: "unavailable", dependency: `bucket ${bucket.name}`, retryAfterMs: 0 });
    },
  };
}

/** Equal for equal values. */
export function digestOf(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("hex");
}

/** The revision of the new entry; undefined: the key has one. */
async function createUnlessKnown(
  bucket: Bucket<KeptRequest>,
  name: string,
  value: KeptRequest,
): Promise<number | undefined> {
  try {
    return await bucket.create(name, value);
  } catch (error) {
    if (faultOf(error)?.code === "already_exists") return undefined;
    throw error;
  }
}

async function keepAnswer(
  bucket: Bucket<KeptRequest>,
  { name, value, revision }: { readonly name: string; readonly value: KeptRequest; readonly revision: number },
  answer: KeptAnswer,
  logger: Pick<Logger, "warn">,
): Promise<KeptAnswer> {
  try {
    await bucket.update(name, { ...value, answer }, revision);
    return answer;
  } catch (error) {
    const faster = faultOf(error)?.code === "conflict" ? await bucket.get(name).catch(() => undefined) : undefined;
    if (faster?.value.answer !== undefined) return faster.value.answer;
    logger.warn(
      { err: error, requestId: value.requestId },
      "an answer is not kept; a repetition asks the service again",
    );
    return answer;
  }
}

/** JSON with a compressed answer, which takes the largest part of an entry. */
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
