import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useDeferredValue, useMemo, useRef, useState, type ReactNode } from "react";
import { keepDraft, readDraft } from "../adapters/drafts.ts";
import { EXAMPLES } from "../adapters/examples.ts";
import { ask, askJson, describeRefusal, RequestError } from "../adapters/request.ts";
import { SCHEMAS } from "../adapters/schemas.ts";
import { buildRequest, type BuiltRequest, type DocumentRequest } from "../domain/build-request.ts";
import { describePlan, type PlanAnswer } from "../domain/describe-plan.ts";
import { MAX_CHARACTERS, readDocuments, type Finding, type ReadDocument } from "../domain/read-documents.ts";
import { useSignedIn } from "../parts/sign-in-gate.tsx";

/** Time without a change of the text after which a plan is requested. */
const PLAN_DELAY_MS = 400;
const SUFFIX_LETTERS = 5;
const KEY_LETTERS = 27;
/** Maximum documents that are named; further documents are counted. */
const MAX_NAMED = 5;

type Checked = { readonly document: ReadDocument; readonly built: BuiltRequest | undefined };
type Sent = { readonly request: DocumentRequest; readonly refusal: string | undefined };

export function Submit(): ReactNode {
  const { namespace, user } = useSignedIn();
  const [text, setText] = useState(() => readDraft(user));
  const [suffix, setSuffix] = useState(randomSuffix);
  const [sent, setSent] = useState<readonly Sent[]>([]);
  const [keys] = useState(() => new Map<string, string>());
  const editor = useRef<HTMLTextAreaElement>(null);
  const read = useDeferredValue(text);
  const checked = useMemo(
    () =>
      readDocuments(read, SCHEMAS).map((document): Checked => {
        const isSound = document.findings.length === 0;
        return { document, built: isSound ? buildRequest(document, { namespace, suffix }) : undefined };
      }),
    [read, namespace, suffix],
  );
  const requests = checked.flatMap(({ built }) => (built && "request" in built ? [built.request] : []));
  const isReady = read === text && checked.length > 0 && requests.length === checked.length;
  const change = (next: string): void => {
    setText(next);
    keepDraft(user, next);
    setSent([]);
  };
  return (
    <>
      <h1>Submit</h1>
      <Editor text={text} onText={change} editor={editor} />
      <div role="status">
        <Sound checked={checked} />
        {checked.filter(isRefused).map(({ document, built }, index) => (
          <Findings
            key={index}
            document={document}
            built={built}
            onJump={(line) => moveCursorToLine(editor.current, text, line)}
          />
        ))}
      </div>
      {isReady && (sent.length === 0 || sent.some(({ refusal }) => refusal !== undefined)) && (
        <Plan
          requests={requests}
          keys={keys}
          onSent={(results) => {
            setSent(results);
            // The documents keep their names and keys until all are accepted, so that a repetition creates no second object.
            if (results.some(({ refusal }) => refusal !== undefined)) return;
            keepDraft(user, "");
            keys.clear();
            setSuffix(randomSuffix());
          }}
        />
      )}
      <SentList sent={sent} onNext={() => change("")} />
    </>
  );
}

function isRefused({ document, built }: Checked): boolean {
  return document.findings.length > 0 || (built !== undefined && "refusal" in built);
}

/** Lists the documents without findings: one line for documents with a schema, and one for documents without a schema. */
function Sound({ checked }: { readonly checked: readonly Checked[] }): ReactNode {
  const sound = checked.filter((each) => !isRefused(each)).map(({ document }) => document);
  const [fitting, unchecked] = [true, false].map((has) => sound.filter(({ hasSchema }) => hasSchema === has));
  return (
    <>
      <SoundLine documents={fitting ?? []} one="fits its schema." several="fit their schemas." className="good" />
      <SoundLine
        documents={unchecked ?? []}
        one="has no schema here: the plan checks it."
        several="have no schemas here: the plan checks them."
        className=""
      />
    </>
  );
}

type SoundLineParts = {
  readonly documents: readonly ReadDocument[];
  readonly one: string;
  readonly several: string;
  readonly className: string;
};

function SoundLine({ documents, one, several, className }: SoundLineParts): ReactNode {
  const { length } = documents;
  if (length === 0) return null;
  return (
    <p className={`notice ${className}`}>
      <strong className="long">
        {length <= MAX_NAMED ? documents.map(titleOf).join(", ") : `${length} documents`}
      </strong>{" "}
      {length === 1 ? one : several}
    </p>
  );
}

function titleOf({ kind, name }: ReadDocument): string {
  return [kind || "document", name].filter(Boolean).join(" ");
}

type EditorParts = {
  readonly text: string;
  readonly onText: (text: string) => void;
  readonly editor: React.RefObject<HTMLTextAreaElement | null>;
};

function Editor({ text, onText, editor }: EditorParts): ReactNode {
  const [example, setExample] = useState<string>();
  const [refused, setRefused] = useState<number>();
  // A browser stops responding while it shows a very long text.
  const isTaken = (characters: number): boolean => {
    const isShort = characters <= MAX_CHARACTERS;
    setRefused(isShort ? undefined : characters);
    return isShort;
  };
  const load = async (file: File | undefined): Promise<void> => {
    if (file !== undefined && isTaken(file.size)) onText(await file.text());
  };
  return (
    <div
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        void load(event.dataTransfer.files[0]);
      }}
    >
      <p className="filters">
        <label>
          <span>A file of YAML or JSON, chosen or dropped here</span>
          <input type="file" accept=".yaml,.yml,.json" onChange={({ target }) => void load(target.files?.[0])} />
        </label>
      </p>
      {(text === "" || text === example) && (
        <Examples
          onText={(next) => {
            setExample(next);
            onText(next);
          }}
        />
      )}
      {refused !== undefined && (
        <p className="notice bad" role="alert">
          The text has {refused} characters; {MAX_CHARACTERS} at most are read. Use <code>muster submit -f FILE</code>.
        </p>
      )}
      <label className="field-label" htmlFor="document">
        Documents: sessions, jobs and replica sets
      </label>
      <textarea
        id="document"
        ref={editor}
        value={text}
        spellCheck={false}
        autoCapitalize="off"
        onPaste={(event) => {
          if (!isTaken(text.length + event.clipboardData.getData("text").length)) event.preventDefault();
        }}
        onChange={({ target }) => onText(target.value)}
      />
    </div>
  );
}

/** Examples that can be submitted unchanged, for users without a document. */
function Examples({ onText }: Pick<EditorParts, "onText">): ReactNode {
  return (
    <p className="actions start" role="group" aria-label="Examples">
      <span>Begin with an example:</span>
      {Object.entries(EXAMPLES).map(([name, load]) => (
        <button key={name} type="button" onClick={() => void load().then(onText)}>
          {name}
        </button>
      ))}
    </p>
  );
}

type FindingsParts = Checked & { readonly onJump: (line: number) => void };

function Findings({ document, built, onJump }: FindingsParts): ReactNode {
  const refusal = built && "refusal" in built ? built.refusal : undefined;
  return (
    <div className="notice bad">
      <strong className="long">{titleOf(document)}</strong>
      {refusal !== undefined && <p>{refusal}</p>}
      <ul className="rows">
        {document.findings.map(({ line, column, message }: Finding) => (
          <li key={`${line}:${column} ${message}`}>
            <button type="button" onClick={() => onJump(line)}>
              line {line}
            </button>{" "}
            <span className="long">{message}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

type PlanParts = {
  readonly requests: readonly DocumentRequest[];
  readonly keys: Map<string, string>;
  readonly onSent: (sent: readonly Sent[]) => void;
};

/** Shows the plan of the services, and the button that executes it. */
function Plan({ requests, keys, onSent }: PlanParts): ReactNode {
  const { csrfToken } = useSignedIn();
  const [isBusy, setIsBusy] = useState(false);
  const { data: plans, error } = useQuery({
    queryKey: ["plan", requests],
    queryFn: async ({ signal }) => {
      await new Promise((resolve) => setTimeout(resolve, PLAN_DELAY_MS));
      return Promise.all(requests.map((request) => readPlan(request, csrfToken, signal)));
    },
    gcTime: 0,
  });
  const send = async (): Promise<void> => {
    setIsBusy(true);
    const results: Sent[] = [];
    // Documents are sent in the order of the text, because later ones may need earlier ones.
    for (const request of requests) results.push(await submit(request, csrfToken, keys));
    setIsBusy(false);
    onSent(results);
  };
  return (
    <section aria-labelledby="plan">
      <h2 id="plan">Plan</h2>
      {error !== null && <p className="notice bad">{error.message}</p>}
      {plans === undefined && error === null && <p className="quiet">Checking…</p>}
      <p className="actions start">
        <button
          type="button"
          className="primary"
          disabled={isBusy || plans === undefined || plans.some(({ isRefused }) => isRefused)}
          onClick={() => void send()}
        >
          Submit {requests.length === 1 ? "it" : `all ${requests.length}`}
        </button>
      </p>
      {requests.map((request, index) => (
        <div key={request.page.id} className="card">
          <h3 className="long">
            {request.page.kind} {request.page.id}
          </h3>
          <PlanOf plan={plans?.[index]} />
        </div>
      ))}
    </section>
  );
}

function PlanOf({ plan }: { readonly plan: PlanAnswer | undefined }): ReactNode {
  return (
    <ul className="rows">
      {plan?.lines.map((line) => (
        <li key={line} className={plan.isRefused ? "long notice bad" : "long"}>
          {line}
        </li>
      ))}
    </ul>
  );
}

type SentParts = { readonly sent: readonly Sent[]; readonly onNext: () => void };

function SentList({ sent, onNext }: SentParts): ReactNode {
  if (sent.length === 0) return null;
  return (
    <section aria-labelledby="sent" role="status">
      <h2 id="sent">Submitted</h2>
      <ul className="rows">
        {sent.map(({ request: { page }, refusal }) => (
          <li key={`${page.kind}/${page.id}`}>
            {refusal === undefined ? (
              <Link className="long" to="/workloads/$kind/$" params={{ kind: page.kind, _splat: page.id }}>
                {page.kind} {page.id}
              </Link>
            ) : (
              <span className="long">
                {page.kind} {page.id}: {refusal}
              </span>
            )}
          </li>
        ))}
      </ul>
      <p className="actions start">
        <button type="button" onClick={onNext}>
          Submit other work
        </button>
      </p>
    </section>
  );
}

/** Returns the plan; a refusal counts as a plan. Throws if the services or the gateway do not answer. */
async function readPlan(
  { planPath, body }: DocumentRequest,
  csrfToken: string,
  signal: AbortSignal,
): Promise<PlanAnswer> {
  try {
    return describePlan(await askJson(planPath, { method: "POST", body, csrfToken, signal }));
  } catch (error) {
    if (!(error instanceof RequestError) || !isRefusal(error.problem.status)) throw error;
    return { lines: [describeRefusal(error)], isRefused: true };
  }
}

/** Returns whether the status is a refusal. After 401 and 429, later requests may be answered. */
function isRefusal(status: number): boolean {
  return status >= 400 && status < 500 && status !== 401 && status !== 429;
}

/** Submits one request. `keys` has the idempotency key of each request: a repeated request gets the first answer. */
async function submit(request: DocumentRequest, csrfToken: string, keys: Map<string, string>): Promise<Sent> {
  const { path, body } = request;
  const content = `${path} ${JSON.stringify(body)}`;
  const key = keys.get(content) ?? randomLetters(KEY_LETTERS);
  keys.set(content, key);
  try {
    await ask(path, { method: "POST", body, csrfToken, headers: { "idempotency-key": key } });
    return { request, refusal: undefined };
  } catch (error) {
    return {
      request,
      refusal: describeRefusal(error),
    };
  }
}

function randomSuffix(): string {
  return randomLetters(SUFFIX_LETTERS);
}

function randomLetters(count: number): string {
  const letters = crypto.getRandomValues(new Uint8Array(count));
  return [...letters].map((each) => String.fromCodePoint(97 + (each % 26))).join("");
}

function moveCursorToLine(editor: HTMLTextAreaElement | null, text: string, line: number): void {
  if (editor === null) return;
  const before = text
    .split("\n")
    .slice(0, line - 1)
    .join("\n");
  const start = line === 1 ? 0 : before.length + 1;
  const end = text.indexOf("\n", start);
  editor.focus();
  editor.setSelectionRange(start, end === -1 ? text.length : end);
}
