import { useRef, type ReactNode } from "react";
import { ask as request } from "../adapters/request.ts";
import type { Work, WorkItem } from "../domain/work.ts";
import { Confirm } from "./confirm.tsx";
import { useSignedIn } from "./sign-in-gate.tsx";

type ActionParts = {
  readonly of: WorkItem;
  readonly work: Work;
  readonly path: (part: string) => string;
  /** Shows a confirmation; undefined closes it. */
  readonly ask: (question: ReactNode) => void;
};

const OVER: readonly string[] = ["succeeded", "failed", "cancelled"];

/** The actions on a piece of work. The user confirms each action first. Only the signer of a lease can change it. */
export function WorkActions({ of, work, path, ask }: ActionParts): ReactNode {
  const { csrfToken } = useSignedIn();
  const close = (): void => ask(undefined);
  const isOver = OVER.includes(work.stage);
  const send = (part: string, method: "POST" | "DELETE", body?: unknown): Promise<unknown> =>
    request(path(part), { method, csrfToken, ...(method === "POST" && { body: body ?? {} }) });
  const confirm = (title: string, verb: string, act: () => Promise<unknown>, more?: ReactNode) => () => {
    ask(
      <Confirm title={title} verb={verb} act={act} onClose={close}>
        {more}
      </Confirm>,
    );
  };
  const { name } = work;
  return (
    <p className="actions start">
      {(of.kind === "session" || of.kind === "job") && !isOver && (
        <button
          type="button"
          className="danger"
          onClick={confirm(
            `Cancel ${name}?`,
            "Cancel it",
            () => send("cancel", "POST"),
            <p>Its pods end, and its machines are free for other work. This cannot be undone.</p>,
          )}
        >
          Cancel…
        </button>
      )}
      {of.kind === "job" && !isOver && (
        <SuspendButton isSuspended={of.item.state === "SUSPENDED"} {...{ name, send, ask }} />
      )}
      {of.kind === "session" && isOver && (
        <button
          type="button"
          className="danger"
          onClick={confirm(`Delete ${name} and its logs?`, "Delete it", () => send("", "DELETE"))}
        >
          Delete…
        </button>
      )}
      {of.kind === "replica-set" && (
        <>
          <ScaleButton
            desired={of.item.replicasDesired}
            name={name}
            send={(body) => send("scale", "POST", body)}
            ask={ask}
          />
          <button
            type="button"
            onClick={confirm(
              of.item.record?.disabled
                ? `Enable ${name}?`
                : `Disable ${name}? Nothing is added, removed or replaced then.`,
              of.item.record?.disabled ? "Enable it" : "Disable it",
              () => send("enable", "POST", { enabled: of.item.record?.disabled ?? false }),
            )}
          >
            {of.item.record?.disabled ? "Enable…" : "Disable…"}
          </button>
        </>
      )}
    </p>
  );
}

type SuspendParts = {
  readonly isSuspended: boolean;
  readonly name: string;
  readonly send: (part: string, method: "POST") => Promise<unknown>;
  readonly ask: ActionParts["ask"];
};

function SuspendButton({ isSuspended, name, send, ask }: SuspendParts): ReactNode {
  const close = (): void => ask(undefined);
  const question = isSuspended ? (
    <Confirm title={`Resume ${name}?`} verb="Resume it" act={() => send("resume", "POST")} onClose={close}>
      <p>It requests its machines again, and starts once it has them.</p>
    </Confirm>
  ) : (
    <Confirm title={`Suspend ${name}?`} verb="Suspend it" act={() => send("suspend", "POST")} onClose={close}>
      <p>Its pods end, and its machines are free for other work until it is resumed.</p>
    </Confirm>
  );
  return (
    <button type="button" onClick={() => ask(question)}>
      {isSuspended ? "Resume…" : "Suspend…"}
    </button>
  );
}

type ScaleParts = {
  readonly desired: number;
  readonly name: string;
  readonly send: (body: unknown) => Promise<unknown>;
  readonly ask: ActionParts["ask"];
};

function ScaleButton({ desired, name, send, ask }: ScaleParts): ReactNode {
  const replicas = useRef<HTMLInputElement>(null);
  const act = (): Promise<unknown> =>
    // The change is refused if the set was scaled since the page showed it.
    send({ replicasDesired: replicas.current?.valueAsNumber, expected: desired });
  const question = (
    <Confirm title={`Scale ${name}`} verb="Scale it" act={act} onClose={() => ask(undefined)}>
      <label>
        <span>Replicas, {desired} now</span>
        <input ref={replicas} type="number" min={0} max={10000} required defaultValue={desired} />
      </label>
    </Confirm>
  );
  return (
    <button type="button" onClick={() => ask(question)}>
      Scale…
    </button>
  );
}
