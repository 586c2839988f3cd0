import { randomBytes } from "node:crypto";
import type { NatsConnection } from "@nats-io/nats-core";
import { findFault } from "@muster/faults";
import { bucketKeys, buckets } from "@muster/proto";
import { openBucket } from "./bucket.ts";
import type { Codec } from "./codec.ts";

/** Enough for one id of 23 characters and its headers. */
const BUCKET_BYTES = 64 * 1024;
const VALUE_BYTES = 256;
const ID = /^muster-[0-9a-f]{16}$/;

/** Stores text, so that `nats kv get` shows it. Throws on a malformed id, which would orphan every object that carries the real one. */
const codec: Codec<string> = {
  encode: (id) => new TextEncoder().encode(id),
  decode: (bytes) => {
    const id = new TextDecoder().decode(bytes);
    if (!ID.test(id)) throw new Error(`"${id.slice(0, 64)}" is not the id of an installation: muster- and 16 digits`);
    return id;
  },
};

/**
 * Returns the id of the installation whose state this NATS stores: a DNS label, equal for all services while the state or a backup exists. Creates a missing
 * id; concurrent callers all receive one id. Rejects as a bucket does, and with a plain Error for a malformed id.
 */
export async function readInstallationId(connection: NatsConnection): Promise<string> {
  const limits = { maxBytes: BUCKET_BYTES, maxValueBytes: VALUE_BYTES };
  const bucket = await openBucket(connection, { name: buckets.installation, codec, ...limits });
  const { installationId } = bucketKeys;
  for (;;) {
    const found = await bucket.get(installationId);
    if (found !== undefined) return found.value;
    try {
      const id = `muster-${randomBytes(8).toString("hex")}`;
      await bucket.create(installationId, id);
      return id;
    } catch (error) {
      // Another process created the id first.
      if (findFault(error)?.code !== "already_exists") throw error;
    }
  }
}
