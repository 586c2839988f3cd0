/** What has happened since the last wait. All of it is a hint: the truth is read afterwards. */
export type Wakeup = {
  /** Newest revision of the stored session that was heard of; 0 when none was. */
  readonly revision: number;
  readonly podsChanged: boolean;
  /** The ledger has said yes. */
  readonly granted: boolean;
};

/** Wakes the executor of one session. Nothing that is told between two waits is lost; it ends the next wait at once. */
export type Waker = Disposable & {
  /** Resolves at the first hint (revisions up to `knownRevision` are none), after the time, or at the signal. */
  wait(options: { readonly ms: number; readonly knownRevision: number; readonly signal: AbortSignal }): Promise<Wakeup>;
  /** Whether a wait with this revision would end at once. */
  isDue(knownRevision: number): boolean;
};

/** Hands hints to those who wait in this process, by the name of the session. True: there was somebody to tell. */
export type Wakeups = {
  open(session: string): Waker;
  recordChanged(session: string, revision: number): boolean;
  podChanged(session: string): boolean;
  granted(session: string): boolean;
};

export function createWakeups(): Wakeups {
  const mailboxes = new Map<string, Set<Mailbox>>();
  const tell = (session: string, hint: Partial<Wakeup>): boolean => {
    const told = mailboxes.get(session);
    for (const mailbox of told ?? []) mailbox.tell(hint);
    return told !== undefined;
  };
  return {
    open: (session) => {
      const mailbox = new Mailbox();
      const all = mailboxes.get(session) ?? new Set<Mailbox>();
      mailboxes.set(session, all.add(mailbox));
      return {
        wait: (options) => mailbox.wait(options),
        isDue: (knownRevision) => mailbox.isDue(knownRevision),
        [Symbol.dispose]: () => {
          all.delete(mailbox);
          if (all.size === 0 && mailboxes.get(session) === all) mailboxes.delete(session);
        },
      };
    },
    recordChanged: (session, revision) => tell(session, { revision }),
    podChanged: (session) => tell(session, { podsChanged: true }),
    granted: (session) => tell(session, { granted: true }),
  };
}

/** Wakes one who waits for the time to pass, before it has; the wait is true then. A ring that nobody waits for ends the next wait at once. */
export type Bell = { ring(): void; wait(ms: number, signal: AbortSignal): Promise<boolean> };

export function createBell(): Bell {
  const mailbox = new Mailbox();
  return {
    ring: () => {
      mailbox.tell({ podsChanged: true });
    },
    wait: async (ms, signal) => (await mailbox.wait({ ms, knownRevision: 0, signal })).podsChanged,
  };
}

const NOTHING: Wakeup = { revision: 0, podsChanged: false, granted: false };
/** What a timer can hold; whoever waits longer looks once more in between. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

class Mailbox {
  #heard = NOTHING;
  #knownRevision = 0;
  #wake: (() => void) | undefined;

  tell(hint: Partial<Wakeup>): void {
    const { revision = 0, podsChanged = false, granted = false } = hint;
    this.#heard = {
      revision: Math.max(revision, this.#heard.revision),
      podsChanged: podsChanged || this.#heard.podsChanged,
      granted: granted || this.#heard.granted,
    };
    if (this.isDue(this.#knownRevision)) this.#wake?.();
  }

  async wait({ ms, knownRevision, signal }: Parameters<Waker["wait"]>[0]): Promise<Wakeup> {
    this.#knownRevision = knownRevision;
    if (!this.isDue(knownRevision) && !signal.aborted) {
      const { promise, resolve } = Promise.withResolvers<undefined>();
      const wake = (): void => {
        resolve(undefined);
      };
      const timer = setTimeout(wake, Math.min(ms, LONGEST_TIMER_MS));
      signal.addEventListener("abort", wake, { once: true });
      this.#wake = wake;
      await promise;
      this.#wake = undefined;
      signal.removeEventListener("abort", wake);
      clearTimeout(timer);
    }
    const heard = this.#heard;
    this.#heard = NOTHING;
    return heard;
  }

  isDue(knownRevision: number): boolean {
    const { revision, podsChanged, granted } = this.#heard;
    return podsChanged || granted || revision > knownRevision;
  }
}
