/** What has happened since the last wait. All of it is a hint: the truth is read afterwards. */
export type Wakeup = {
  /** Newest revision of the stored session that was heard of; 0 when none was. */
  readonly revision: number;
  readonly podsChanged: boolean;
  /** The ledger has said yes. */
  readonly granted: boolean;
};

/** Wakes one who waits for something to happen to a session. Nothing that is told between two waits is lost; it ends the next wait at once. */
export type Waker = Disposable & {
  /** Resolves at the first hint (revisions up to `knownRevision` are none), after the time, or at the signal. */
  wait(options: { readonly ms: number; readonly knownRevision: number; readonly signal: AbortSignal }): Promise<Wakeup>;
  /** Ends this wait, or the next one, as a change of the pods does. */
  ring(): void;
  /** Whether a wait with this revision would end at once. */
  isDue(knownRevision: number): boolean;
};

/** Hands hints to those who wait in this process, by the name of the session. True: an executor was told, so that nobody else has to act on it. */
export type Wakeups = {
  /** For the executor of the session. */
  open(session: string): Waker;
  /** For one who only wants to see its changes. */
  follow(session: string): Waker;
  recordChanged(session: string, revision: number): boolean;
  podChanged(session: string): boolean;
  granted(session: string): boolean;
};

export function createWakeups(): Wakeups {
  const executors: Mailboxes = new Map();
  const followers: Mailboxes = new Map();
  return {
    open: (session) => openMailbox(executors, session),
    follow: (session) => openMailbox(followers, session),
    recordChanged: (session, revision) => {
      tell(followers, session, { revision });
      return tell(executors, session, { revision });
    },
    podChanged: (session) => tell(executors, session, { podsChanged: true }),
    granted: (session) => tell(executors, session, { granted: true }),
  };
}

type Mailboxes = Map<string, Set<Mailbox>>;

function openMailbox(mailboxes: Mailboxes, session: string): Waker {
  const mailbox = new Mailbox();
  const all = mailboxes.get(session) ?? new Set<Mailbox>();
  mailboxes.set(session, all.add(mailbox));
  return {
    wait: (options) => mailbox.wait(options),
    ring: () => mailbox.tell({ podsChanged: true }),
    isDue: (knownRevision) => mailbox.isDue(knownRevision),
    [Symbol.dispose]: () => {
      all.delete(mailbox);
      if (all.size === 0 && mailboxes.get(session) === all) mailboxes.delete(session);
    },
  };
}

/** True: there was somebody to tell. */
function tell(mailboxes: Mailboxes, session: string, hint: Partial<Wakeup>): boolean {
  const told = mailboxes.get(session);
  for (const mailbox of told ?? []) mailbox.tell(hint);
  return told !== undefined;
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
