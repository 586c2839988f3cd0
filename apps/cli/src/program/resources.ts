import type { Cli } from "../cli.ts";
import { setNameOf } from "../commands/farm-questions.ts";
import { describeWork, getPools, getReservations, getWork } from "../commands/get.ts";
import { leaseIdOf } from "../commands/lease-questions.ts";
import { getLeases } from "../commands/leases.ts";
import type { Format } from "../commands/output.ts";
import { describeSet, getSets, waitForSet } from "../commands/replica-sets.ts";
import { showRoll, waitForRoll } from "../commands/rolls.ts";
import { waitForLease } from "../commands/wait-for-lease.ts";
import { waitForWork, type WaitOptions } from "../commands/wait.ts";
import type { ExitCode } from "../domain/decide-exit.ts";
import { isLeaseWord } from "../domain/lease-document.ts";
import { isRollWord, isSetWord } from "../domain/replica-set.ts";
import { findKind } from "../kinds/kinds.ts";

type Show<Name> = (cli: Cli, name: Name, output: Format) => Promise<ExitCode>;

/** What `get`, `describe` and `wait` do with one resource. `wait` gets the argument as it stands on the command line. */
type Resource = {
  readonly isWord: (word: string) => boolean;
  readonly get: Show<string | undefined>;
  readonly describe?: Show<string>;
  readonly wait?: (cli: Cli, text: string, options: WaitOptions) => Promise<ExitCode>;
};

const ANY_LEASE = {
  ...{ mine: false, all: false, phases: [] },
  ...{ keyFile: undefined, secret: undefined, type: undefined },
} as const;

const RESOURCES: readonly Resource[] = [
  {
    isWord: isSetWord,
    get: getSets,
    describe: describeSet,
    wait: (cli, text, options) => waitForSet(cli, setNameOf(text), options),
  },
  {
    isWord: isRollWord,
    get: (cli, name, output) => showRoll(cli, name, { follow: false, timeoutMs: undefined, output }),
    wait: (cli, text, options) => waitForRoll(cli, setNameOf(text), options),
  },
  {
    isWord: isLeaseWord,
    get: (cli, name, output) =>
      getLeases(cli, { id: name === undefined ? undefined : leaseIdOf(name), ...ANY_LEASE, output }),
    describe: (cli, name, output) => getLeases(cli, { id: leaseIdOf(name), ...ANY_LEASE, output }),
    wait: (cli, text, options) => waitForLease(cli, leaseIdOf(text), options),
  },
  { isWord: (word) => word.startsWith("pool"), get: getPools },
  { isWord: (word) => word.startsWith("reservation"), get: getReservations },
];

/** The resource of this word; a word that none has is left to the kinds of work, of which the first is meant where none is named. */
export function resourceOf(cli: Cli, word: string): Required<Resource> {
  const kind = findKind(cli.kinds, word) ?? cli.kinds[0];
  const work: Required<Resource> = {
    isWord: () => true,
    get: (_cli, name, output) => getWork(cli, { kind, name }, output),
    describe: (_cli, name, output) => describeWork(cli, kind, name, output),
    wait: waitForWork,
  };
  return { ...work, ...RESOURCES.find(({ isWord }) => isWord(word)) };
}
