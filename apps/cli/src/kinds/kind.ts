import type { Client } from "@muster/bus";
import type { ServiceDescriptor } from "@muster/proto";
import type { LogChunk, LogPlace } from "../adapters/messages.ts";
import type { Explained } from "../adapters/explanation-messages.ts";
import type { Schema } from "../domain/json-schema.ts";
import type { ReadDocument } from "../domain/read-document.ts";
import type { DocumentName } from "../domain/read-name.ts";
import type { Work, WorkEvent } from "../domain/work.ts";

/** All that the commands need to know of one kind of work. Everything that differs between kinds is in its file. */
export type Kind = {
  /** As commands name one of it: `session`. */
  readonly noun: string;
  readonly plural: string;
  /** The noun of a kind that shows all of this one, too. Absent: none does. */
  readonly within?: string;
  /** The hint for a name that its service does not know. */
  readonly missing?: string;
  /** The values of `kind` in documents that create one. */
  readonly documents: readonly string[];
  /** Undefined where another project publishes it. */
  readonly schema: (() => Schema) | undefined;
  /** Reads a document that names one of `documents`. Never throws. `known` are the names that documents may have, of all kinds. */
  readonly read: (document: unknown, known: readonly string[]) => ReadDocument<Draft>;
  readonly calls: (link: Link) => WorkCalls;
  /** Types of the conditions that its work may have. */
  readonly conditions: readonly string[];
  /** Deletes one that is over. Absent: something else than this command does it. */
  readonly remove?: (link: Link, work: Work) => Promise<void>;
  /** How a finished one is deleted, and its name freed, for people. */
  readonly goneBy: (name: string) => string;
  /** The ledger knows it by ids that differ from its names, and `explain` takes these, too. Absent: they are the same. */
  readonly hasOwnerIds?: true;
  /** Why it is in its phase: its service decides that. */
  readonly explain: (link: Link, name: string) => Promise<Explained>;
};

/** How the command calls the services: over NATS, or through the gateway. */
export type ServiceCalls = {
  readonly client: <Service extends ServiceDescriptor>(service: Service) => Client<Service>;
  /** Calls the listener with the name of each session that has a new event, until disposed; with a name of this one at least. A hint may be lost. */
  readonly onSessionEvent: (listener: (name: string) => void, name?: string) => Promise<AsyncDisposable>;
};

/** The services; the signal ends every call. */
export type Link = ServiceCalls & {
  readonly stop: AbortSignal;
  /** The namespace of jobs; absent: the one that the job-controller serves. */
  readonly namespace?: string | undefined;
};

/** The work that a document describes, complete and valid as far as the services are not needed to check it. */
export type Draft = {
  readonly name: DocumentName;
  /** The document again, with everything that was left out or repeated written in full. */
  readonly document: Readonly<Record<string, unknown>>;
  /** The check of its service, where that knows more than the file shows; creates nothing. Rejects with FaultError when the service does not answer. */
  readonly check?: (link: Link, name: string) => Promise<Checked>;
  /** The same request id finds what the first one made. */
  readonly submit: (link: Link, request: { readonly requestId: string; readonly name: string }) => Promise<Work>;
};

/** The problems for which the services would refuse it, and the warnings about values that they would change. */
export type Checked = { readonly problems: readonly FieldProblem[]; readonly warnings: readonly string[] };

/** `field` is a path such as `spec.replicaSpecs.worker.dependsOn[0].status`. */
export type FieldProblem = { readonly field: string; readonly reason: string };

/** Every call rejects with FaultError and nothing else. */
export type WorkCalls = {
  readonly get: (name: string) => Promise<Work>;
  /** The work once it differs from this state of it, or as it is after some seconds. */
  readonly after: (seen: Work, signal: AbortSignal) => Promise<Work>;
  readonly list: () => Promise<Work[]>;
  /** The work with its earlier phases, as far as they are still known. Absent: it has them all. */
  readonly recall?: (work: Work) => Promise<Work>;
  readonly cancel: (name: string) => Promise<Work>;
  /** Suspends it, or resumes it. Absent: it would lose what it has done. */
  readonly suspend?: (name: string, suspended: boolean) => Promise<Work>;
  /**
   * The log from the place; with `follow` once it has something there, or after some seconds. A component that runs again is followed from one run to the
   * next: then the next place is of another run. `container`: another one than the main one.
   */
  readonly log: (
    name: string,
    component: string,
    from: LogPlace,
    options?: { readonly signal: AbortSignal; readonly follow: boolean; readonly container?: string | undefined },
  ) => Promise<LogChunk>;
  /** All that happened to it, where that is more than its own events; in any order. */
  readonly events?: (work: Work) => Promise<readonly WorkEvent[]>;
  /** Calls the listener with the name of each that has a new event, until disposed; with a name of this one at least. A hint may be lost. */
  readonly onEvent: (listener: (name: string) => void, name?: string) => Promise<AsyncDisposable>;
};
