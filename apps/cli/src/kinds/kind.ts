import type { Client } from "@muster/bus";
import type { ServiceDescriptor } from "@muster/proto";
import type { LogChunk, LogPlace } from "../adapters/messages.ts";
import type { ExplainedReservation } from "../adapters/explanation-messages.ts";
import type { Schema } from "../domain/json-schema.ts";
import type { ReadDocument } from "../domain/read-document.ts";
import type { DocumentName } from "../domain/read-name.ts";
import type { Work, WorkEvent } from "../domain/work.ts";

/** A kind of work, as the commands need it. All differences between kinds are in the file of the kind. */
export type WorkKind = {
  /** The noun of one item in commands: `session`. */
  readonly noun: string;
  readonly plural: string;
  /** The service that runs it, for messages: `job controller`. */
  readonly controller: string;
  /** The noun of a kind that includes this one; absent if none does. */
  readonly within?: string;
  /** The hint for a name that the service does not know. */
  readonly missing?: string;
  /** The values of `kind` in documents that create one. */
  readonly documents: readonly string[];
  /** Undefined if another project publishes the schema. */
  readonly schema: (() => Schema) | undefined;
  /** Reads a document with one of these kinds. Never throws. `known` lists the kinds of all documents. */
  readonly read: (document: unknown, known: readonly string[]) => ReadDocument<WorkDraft>;
  readonly calls: (link: ServiceLink) => WorkCalls;
  /** Types of the conditions that work of this kind may have. */
  readonly conditions: readonly string[];
  /** Deletes finished work. Absent if another program deletes it. */
  readonly remove?: (link: ServiceLink, work: Work) => Promise<void>;
  /** Describes for people how finished work is deleted, and its name freed. */
  readonly goneBy: (name: string) => string;
  /** Set if the ledger's ids differ from names; `explain` then accepts both. Absent if they are equal. */
  readonly hasOwnerIds?: true;
  /** Set if work of the kind has labels, by which a list selects. */
  readonly hasLabels?: true;
  /** Asks the service why the work is in its phase. */
  readonly explain: (link: ServiceLink, name: string) => Promise<ExplainedReservation>;
};

/** The transport of calls to the services: NATS or the gateway. */
export type ServiceCalls = {
  readonly client: <Service extends ServiceDescriptor>(service: Service) => Client<Service>;
  /** Calls the listener with the name of each session that has a new event, until disposed; with `name`, at least for that session. A hint may be lost. */
  readonly onSessionEvent: (listener: (name: string) => void, name?: string) => Promise<AsyncDisposable>;
};

/** A connection to the services; the signal ends every call. */
export type ServiceLink = ServiceCalls & {
  readonly stop: AbortSignal;
  /** The namespace of jobs; absent selects the one that the job controller serves. */
  readonly namespace?: string | undefined;
  /** Lists of jobs are of every served namespace. */
  readonly allNamespaces?: boolean | undefined;
};

/** The work that a document describes, complete and valid as far as the services are not needed to check it. */
export type WorkDraft = {
  readonly name: DocumentName;
  /** The document with all defaults and repetitions written in full. */
  readonly document: Readonly<Record<string, unknown>>;
  /** Asks the service to check the draft, if it knows more than the file shows; creates nothing. Rejects with FaultError if the service does not answer. */
  readonly check?: (link: ServiceLink, name: string) => Promise<CheckResult>;
  /** Does the same for a dry run only, because the service makes these checks at the submission itself. */
  readonly plan?: (link: ServiceLink, name: string) => Promise<CheckResult>;
  /** Submits the work. The same request id finds the work that the first request created. */
  readonly submit: (link: ServiceLink, request: { readonly requestId: string; readonly name: string }) => Promise<Work>;
};

/** The problems for which the services would refuse it, and the warnings about values that they would change. */
export type CheckResult = { readonly problems: readonly FieldProblem[]; readonly warnings: readonly string[] };

/** `field` is a path such as `spec.replicaSpecs.worker.dependsOn[0].status`. */
export type FieldProblem = { readonly field: string; readonly reason: string };

/** Every call rejects with FaultError and nothing else. */
export type WorkCalls = {
  readonly get: (name: string) => Promise<Work>;
  /** Returns the work once it differs from `seen`, or after some seconds. */
  readonly after: (seen: Work, signal: AbortSignal) => Promise<Work>;
  /** Lists all work, or the work whose labels match the selector, if the kind has labels. */
  readonly list: (selector?: string) => Promise<Work[]>;
  /** Adds earlier phases to the work, as far as they are known. Absent if the work already has them all. */
  readonly recall?: (work: Work) => Promise<Work>;
  readonly cancel: (name: string) => Promise<Work>;
  /** Suspends or resumes the work. Absent if a suspension would lose its progress. */
  readonly suspend?: (name: string, suspended: boolean) => Promise<Work>;
  /**
   * Reads the log from a position; `follow` waits some seconds for more. A component that runs again is followed across runs: the next position then belongs to
   * another run. `container` selects another container than the main one.
   */
  readonly log: (
    name: string,
    component: string,
    from: LogPlace,
    options?: { readonly signal: AbortSignal; readonly follow: boolean; readonly container?: string | undefined },
  ) => Promise<LogChunk>;
  /** Returns all events about the work, if they exceed its own; in any order. */
  readonly events?: (work: Work) => Promise<readonly WorkEvent[]>;
  /** Calls the listener with the name of each item that has a new event, until disposed; with `name`, at least for that item. A hint may be lost. */
  readonly onEvent: (listener: (name: string) => void, name?: string) => Promise<AsyncDisposable>;
};
