import { useQuery, useQueryClient } from "@tanstack/react-query";
import { createContext, useContext, useEffect, useState, type ReactNode } from "react";
import { whenUnauthenticated } from "../adapters/feeds.ts";
import type { SignedIn, SignInMethods } from "../adapters/messages.ts";
import { ask, askJson, RequestError } from "../adapters/request.ts";

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

/** Reads the token of a link that `npm start` prints. It is removed from the address before any other code runs. */
const linkToken = new URLSearchParams(location.hash.slice(1)).get("token");
if (linkToken !== null) history.replaceState(null, "", `${location.pathname}${location.search}`);

/** Shows the console to users who are signed in, and the form to others. */
export function SignInGate({ children }: { readonly children: ReactNode }): ReactNode {
  const client = useQueryClient();
  const { data, error, isPending } = useQuery({
    queryKey: SESSION,
    queryFn: () => readSession(),
    staleTime: Infinity,
    retry: false,
  });
  useEffect(() => whenUnauthenticated(() => client.setQueryData(SESSION, null)), [client]);
  if (isPending) return <p className="center">Loading…</p>;
  if (!data) {
    const because = error instanceof RequestError ? error.message : "";
    return <SignIn because={because} onSignedIn={(signed) => client.setQueryData(SESSION, signed)} />;
  }
  const signOut = async (): Promise<void> => {
    await ask("/auth/session", { method: "DELETE", csrfToken: data.csrfToken });
    sessionStorage.clear();
    // The reload drops all data and lists of this user before the next one signs in.
    location.reload();
  };
  return <SignedContext value={{ ...data, signOut }}>{children}</SignedContext>;
}

let isLinkUsed = false;

async function readSession(): Promise<SignedIn | null> {
  if (linkToken !== null && !isLinkUsed) {
    isLinkUsed = true;
    return signIn(linkToken);
  }
  try {
    return await askJson<SignedIn>("/auth/session");
  } catch (error) {
    if (error instanceof RequestError && error.problem.status === 401) return null;
    throw error;
  }
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
      {refusal !== "" && (
        <p className="notice bad" role="alert">
          {refusal}
        </p>
      )}
    </main>
  );
}
