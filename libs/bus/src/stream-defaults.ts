/** The limits of a stream whose configuration has none. */
export const STREAM_DEFAULTS = {
  /** A stream with retention `limits` keeps a week and 256 MiB. */
  maxAgeMs: 7 * 24 * 3_600_000,
  maxBytes: 256 * 1024 * 1024,
  duplicateWindowMs: 120_000,
} as const;
