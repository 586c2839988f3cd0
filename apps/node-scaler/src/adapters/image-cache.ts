type ImageCache = {
  /** Returns the image with these properties. Rejects as the provider does, unless an earlier answer exists. */
  find(provider: string, properties: Readonly<Record<string, string>>): Promise<string>;
};

type ImageCacheDeps = {
  readonly ttlMs: number;
  readonly now: () => number;
  readonly ask: (provider: string, properties: Readonly<Record<string, string>>) => Promise<string>;
  /** Called when the provider fails and an older image is used. */
  readonly onStale: (provider: string, error: unknown) => void;
};

type Entry = { image: string; askedAtMs: number; refreshing: boolean };

/** Calls a provider again after the TTL. Until its answer, and while the provider fails, the previous image is used. */
export function makeImageCache({ ttlMs, now, ask, onStale: stale }: ImageCacheDeps): ImageCache {
  const entries = new Map<string, Entry>();
  const first = new Map<string, Promise<string>>();

  return {
    find: async (provider, properties) => {
      const sorted = Object.entries(properties).sort(([one], [other]) => (one < other ? -1 : 1));
      const key = JSON.stringify([provider, sorted]);
      const entry = entries.get(key);
      if (entry !== undefined) {
        if (now() - entry.askedAtMs >= ttlMs && !entry.refreshing) {
          entry.refreshing = true;
          void ask(provider, properties)
            .then(
              (image) => Object.assign(entry, { image, askedAtMs: now() }),
              (error: unknown) => stale(provider, error),
            )
            .finally(() => (entry.refreshing = false));
        }
        return entry.image;
      }
      const asked = first.get(key) ?? ask(provider, properties);
      first.set(key, asked);
      try {
        const image = await asked;
        entries.set(key, { image, askedAtMs: now(), refreshing: false });
        return image;
      } finally {
        first.delete(key);
      }
    },
  };
}
