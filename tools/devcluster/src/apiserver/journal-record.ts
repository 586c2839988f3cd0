import { crc32 } from "node:zlib";
import { isList, isObject, type JsonValue, type JsonObject } from "./json.ts";

/** One line of the journal. */
export type JournalRecord =
  /** An object of a snapshot. */
  | { readonly do: "keep"; readonly bucket: string; readonly key: string; readonly object: JsonObject }
  /** The revision, and nothing before it can be asked for: the end of a snapshot, or history that was dropped on demand. */
  | { readonly do: "forget"; readonly revision: number }
  | {
      readonly do: "write";
      readonly revision: number;
      readonly bucket: string;
      readonly key: string;
      /** Undefined for a removal. */
      readonly object: JsonObject | undefined;
    };

/** Encodes a line: a checksum, which detects damage, and readable JSON. */
export function encodeRecord(record: JournalRecord): Buffer {
  const text = JSON.stringify(listRecordFields(record));
  return Buffer.from(`${checksum(text)} ${text}\n`);
}

/** Returns undefined for a damaged line. */
export function decodeRecord(line: Buffer): JournalRecord | undefined {
  const text = line.subarray(9).toString("utf8");
  if (line.subarray(0, 8).toString("latin1") !== checksum(text) || line[8] !== 32) return undefined;
  const parsed: unknown = JSON.parse(text);
  return isList(parsed) ? parseRecordFields(parsed) : undefined;
}

function checksum(text: string): string {
  return crc32(text).toString(16).padStart(8, "0");
}

function listRecordFields(record: JournalRecord): JsonValue {
  switch (record.do) {
    case "keep":
      return ["keep", record.bucket, record.key, record.object];
    case "forget":
      return ["forget", record.revision];
    case "write":
      return ["write", record.revision, record.bucket, record.key, record.object ?? null];
  }
}

function parseRecordFields([kind, ...fields]: readonly JsonValue[]): JournalRecord | undefined {
  if (kind === "forget") {
    const [revision] = fields;
    return typeof revision === "number" ? { do: "forget", revision } : undefined;
  }
  if (kind === "keep") {
    const [bucket, key, object] = fields;
    if (typeof bucket !== "string" || typeof key !== "string" || !isObject(object)) return undefined;
    return { do: "keep", bucket, key, object };
  }
  const [revision, bucket, key, object] = fields;
  if (kind !== "write" || typeof revision !== "number" || typeof bucket !== "string" || typeof key !== "string") {
    return undefined;
  }
  return { do: "write", revision, bucket, key, object: isObject(object) ? object : undefined };
}
