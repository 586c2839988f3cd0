import { buckets, streams } from "@muster/proto";

/** The state of a stream in the format of the NATS API; fields that are not listed here are copied unchanged. */
export type StreamHead = {
  readonly config: { readonly name: string; readonly num_replicas?: number };
  readonly state: { readonly messages?: number; readonly last_seq?: number };
};

/** Streams that are copied one after the other. The copy restarts from the first stream if `steady` receives a message meanwhile. */
export type BackupGroup = { readonly streams: readonly string[]; readonly steady?: string };

/**
 * The order in which streams are copied while services write them. Each copy is of another moment, so a record is copied before what it relies on: a record
 * may name machines, which the later ledger has; machines that only the ledger has are released by their owner. The log of the ledger is cut after a
 * snapshot, so both are copied within a time without one. Locks are late, because their fencing tokens must be newer than those of earlier leaders. The id
 * of the installation is last: without it, after a partial restore, no running pod counts as a leftover of this installation.
 */
export function orderBackupStreams(): readonly BackupGroup[] {
  const { locks, farmLocks, snapshots, installation, ...records } = buckets;
  const { ledger, ...others } = streams;
  return [
    { streams: [...Object.values(others).map(({ name }) => name), ...Object.values(records).map(streamOf)] },
    { streams: [streamOf(snapshots), ledger.name], steady: streamOf(snapshots) },
    { streams: [streamOf(locks), streamOf(farmLocks), streamOf(installation)] },
  ];
}

function streamOf(bucket: string): string {
  return `KV_${bucket}`;
}
