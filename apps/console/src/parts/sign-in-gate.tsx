import { useQuery, useQueryClient } from "@tanstack/react-query";
import { createContext, useContext, useEffect, useState, type ReactNode } from "react";
import { dropDrafts } from "../adapters/drafts.ts";
import { followJobsOf, whenUnauthenticated } from "../adapters/feeds.ts";
import type { SignedIn, SignInMethods } from "../adapters/messages.ts";
import { ask, askJson, RequestError } from "../adapters/request.ts";
import { Refusal } from "./refusal.tsx";

type Signed = SignedIn & { readonly signOut: () => Promise<void> };

const SignedContext = createContext<Signed | undefined>(undefined);

/** Returns the signed-in user. Usable only below the gate. */
export function useSignedIn(): Signed {
  const signed = useContext(SignedContext);
  if (signed === undefined) throw new Error("this is shown only to users who are signed in");
  return signed;
}

/** Returns how users may sign in, and the address of traces. */
export function useMethods(): SignInMethods | undefined {
  const { data } = useQuery({
    queryKey: ["methods"],
    queryFn: () => askJson<SignInMethods>("/auth/methods"),
    staleTime: Infinity,
  });
  return data;
}

const SESSION = ["session"];

/** Channel on which the other pages of this browser end their sessions too. */
const signedOut = new BroadcastChannel("muster-signed-out");
signedOut.onmessage = () => location.reload();

/** Reads the token of a link that `npm start` prints. It is removed from the address before any other code runs. */
const linkToken = readLinkToken(location.hash);
if (linkToken !== null) history.replaceState(null, "", `${location.pathname}${location.search}`);

/** Interval between two attempts to read the session. */
const RETRY_MS = 3000;

function readLinkToken(hash: string): string | null {
  return new URLSearchParams(hash.slice(1)).get("token");
}

/** Shows the console to signed-in users, and the sign-in form to other users. */
export function SignInGate({ children }: { readonly children: ReactNode }): ReactNode {
  const client = useQueryClient();
  const [refusal, setRefusal] = useState("");
  const { data, error, isPending } = useQuery({
    queryKey: SESSION,
    queryFn: () => readSession(),
    staleTime: Infinity,
    retry: false,
    refetchInterval: ({ state }) => (isOutage(state.error) ? RETRY_MS : false),
  });
  const onSignedIn = (signed: SignedIn): void => {
    client.setQueryData(SESSION, { signed });
  };
  useEffect(() => whenUnauthenticated(() => client.setQueryData(SESSION, null)), [client]);
  useEffect(() => {
    // Pasting a link into an open page changes only the fragment after #.
    const onHash = (): void => {
      if (readLinkToken(location.hash) !== null) location.reload();
    };
    window.addEventListener("hashchange", onHash);
    return () => window.removeEventListener("hashchange", onHash);
  }, []);
  if (isPending) return <p className="center">Loading…</p>;
  if (!data) {
    const because = error instanceof RequestError ? error.message : "";
    if (isOutage(error)) return <p className="center">Muster is not available: {because}. Trying again…</p>;
    return <SignIn because={because} onSignedIn={onSignedIn} />;
  }
  const { signed, isLinkUnused } = data;
  if (isLinkUnused === true) return <LinkQuestion signed={signed} onSignedIn={onSignedIn} />;
  const signOut = async (): Promise<void> => {
    setRefusal("");
    try {
      await ask("/auth/session", { method: "DELETE", csrfToken: signed.csrfToken });
    } catch (cause) {
      setRefusal(`You are still signed in: ${cause instanceof Error ? cause.message : String(cause)}`);
      return;
    }
    dropDrafts();
    signedOut.postMessage(null);
    // The reload drops all data and lists of this user before the next one signs in.
    location.reload();
  };
  followJobsOf(signed.namespace);
  return (
    <SignedContext value={{ ...signed, signOut }}>
      <Refusal>{refusal}</Refusal>
      {children}
    </SignedContext>
  );
}

/** Returns whether the gateway did not answer, so that the signed-in user is unknown. */
function isOutage(error: unknown): boolean {
  return error instanceof RequestError && (error.problem.status === 0 || error.problem.status >= 500);
}

type SessionState = {
  readonly signed: SignedIn;
  /** True if the page was opened by a link for another sign-in. */
  readonly isLinkUnused?: boolean;
};

let isLinkUsed = false;

async function readSession(): Promise<SessionState | null> {
  const signed = await askJson<SignedIn>("/auth/session").catch((error: unknown) => {
    if (error instanceof RequestError && error.problem.status === 401) return undefined;
    throw error;
  });
  if (linkToken === null || isLinkUsed) return signed ? { signed } : null;
  if (signed !== undefined) return { signed, isLinkUnused: true };
  isLinkUsed = true;
  return { signed: await signIn(linkToken) };
}

type LinkParts = { readonly signed: SignedIn; readonly onSignedIn: (signed: SignedIn) => void };

/** Asks before a link replaces the signed-in user: a link from another person would otherwise change the user without notice. */
function LinkQuestion({ signed, onSignedIn }: LinkParts): ReactNode {
  const [refusal, setRefusal] = useState("");
  const decide = async (usesLink: boolean): Promise<void> => {
    try {
      const next = usesLink ? await signIn(linkToken ?? "") : signed;
      isLinkUsed = true;
      onSignedIn(next);
    } catch (error) {
      setRefusal(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <main className="sign-in">
      <h1>Muster</h1>
      <p className="long">You are signed in as {signed.user}, and the link has a token for a sign-in.</p>
      <p className="actions start">
        <button type="button" className="primary" onClick={() => void decide(false)}>
          Stay signed in
        </button>
        <button type="button" onClick={() => void decide(true)}>
          Sign in with the link
        </button>
      </p>
      <Refusal>{refusal}</Refusal>
    </main>
  );
}

function signIn(token: string): Promise<SignedIn> {
  return askJson<SignedIn>("/auth/session", { method: "POST", body: { token } });
}

type SignInParts = { readonly because: string; readonly onSignedIn: (signed: SignedIn) => void };

function SignIn({ because, onSignedIn }: SignInParts): ReactNode {
  const methods = useMethods();
  const [refusal, setRefusal] = useState(because);
  const submit = async (form: FormData): Promise<void> => {
    const token = form.get("token");
    setRefusal("");
    try {
      onSignedIn(await signIn(typeof token === "string" ? token.trim() : ""));
    } catch (error) {
      setRefusal(error instanceof RequestError ? error.message : String(error));
    }
  };
  return (
    <main className="sign-in">
      <h1>Muster</h1>
      {methods?.oidc === true && (
        <p>
          <a
            className="button primary"
            href={`/auth/oidc/start?return=${encodeURIComponent(location.pathname + location.search)}`}
          >
            Sign in with your account
          </a>
        </p>
      )}
      {methods?.token !== false && (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            void submit(new FormData(event.currentTarget));
          }}
        >
          <label htmlFor="token">Token</label>
          <input id="token" name="token" type="password" autoComplete="off" required autoFocus />
          <p className="hint">The token of the gateway's file, of your cluster, or of your issuer.</p>
          <button type="submit" className="primary">
            Sign in
          </button>
        </form>
      )}
      <Refusal>{refusal}</Refusal>
    </main>
  );
}
