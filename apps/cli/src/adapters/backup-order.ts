import { buckets, streams } from "@muster/proto";

/** What NATS says of a stream beside its messages, in the words of its API; only what is named is looked at. */
export type StreamHead = {
  readonly config: { readonly name: string; readonly num_replicas?: number };
  readonly state: { readonly messages?: number; readonly last_seq?: number };
};

/** Streams that are copied one after the other; again from the first of them while `steady` got messages meanwhile. */
export type BackupGroup = { readonly streams: readonly string[]; readonly steady?: string };

/**
 * In which order streams are copied while services write them. Each copy is of one moment, and the moments differ, so what is relied on comes later than what relies
 * on it: a record may name machines, which the ledger then has; what the ledger has in excess its owner gives back. The ledger's log is cut once a snapshot is
 * written: both have to be of a time in which no snapshot was. Locks are late, because their numbers fence whoever led before. The id of the installation is last: without
 * it, after half of a restore, nothing that runs is taken for a leftover of ours.
 */
export function backupOrder(): readonly BackupGroup[] {
  const { locks, farmLocks, snapshots, installation, ...records } = buckets;
  const { ledger, ...others } = streams;
  return [
    { streams: [...Object.values(others).map(({ name }) => name), ...Object.values(records).map(streamOf)] },
    { streams: [streamOf(snapshots), ledger.name], steady: streamOf(snapshots) },
    { streams: [streamOf(locks), streamOf(farmLocks), streamOf(installation)] },
  ];
}

/** The stream that a bucket is. */
function streamOf(bucket: string): string {
  return `KV_${bucket}`;
}
