/** What a stream keeps when its configuration does not say. */
export const STREAM_DEFAULTS = {
  /** For retention `limits`: a week and 256 MiB. */
  maxAgeMs: 7 * 24 * 3_600_000,
  maxBytes: 256 * 1024 * 1024,
  duplicateWindowMs: 120_000,
} as const;
