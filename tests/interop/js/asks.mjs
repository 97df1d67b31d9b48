// Asks a broker by jolokia.js and its simple form. Returns question -> what was told.
import Jolokia from "@jolokia.js/simple"

globalThis.window ??= globalThis // jolokia.js looks for btoa there, and node has no window

const BROKER = 'org.apache.activemq.artemis:broker="ref"'
const QUEUE = BROKER + ',component=addresses,address="orders",subcomponent=queues,routing-type="anycast",queue="orders"'
const QUEUES = BROKER + ",component=addresses,subcomponent=queues,*"

export async function asks(url, username, password) {
    const told = {}
    const jolokia = new Jolokia({ url, username, password })
    const ask = async (name, question) => {
        try { told[name] = await question() } catch (error) { told[name] = `refused ${error?.error_type ?? error?.status ?? error?.message ?? ""}` }
    }
    const said = answer => answer.status === 200 ? answer.value : `${answer.status} ${answer.error_type} ${answer.stacktrace === undefined}`
    await ask("read", async () => said(await jolokia.request({ type: "read", mbean: QUEUE, attribute: "MessageCount" })))
    await ask("read by GET", async () => said(await jolokia.request({ type: "read", mbean: QUEUE, attribute: "MessageCount" }, { method: "get" })))
    await ask("read several", async () => said(await jolokia.request({ type: "read", mbean: QUEUE, attribute: ["MessageCount", "Name"] })))
    await ask("simple read", () => jolokia.getAttribute(QUEUE, "MessageCount"))
    await ask("simple read of several", () => jolokia.getAttribute(QUEUE, ["MessageCount", "Paused"]))
    await ask("simple search", async () => (await jolokia.search(QUEUES)).some(name => name.includes('queue="orders"')))
    await ask("simple search for nothing", () => jolokia.search("no.such:*"))
    await ask("simple list", async () => Object.keys((await jolokia.list("org.apache.activemq.artemis/" + Jolokia.escape(QUEUE.split(":")[1])))).sort().join())
    await ask("simple version", async () => (await jolokia.version()).protocol >= "7")
    await ask("simple exec", () => jolokia.execute(QUEUE, "countMessages(java.lang.String)", "n = 1"))
    await ask("exec with a slash by GET", () => jolokia.execute(QUEUE, "countMessages(java.lang.String)", "n / 1 = 1", { method: "get" }))
    await ask("simple write", () => jolokia.setAttribute(QUEUE, "MessageCount", 5))
    await ask("no attribute", async () => said(await jolokia.request({ type: "read", mbean: QUEUE, attribute: "NoSuch" })))
    await ask("no operation", async () => said(await jolokia.request({ type: "exec", mbean: QUEUE, operation: "noSuch()" })))
    await ask("bulk", async () => (await jolokia.request([
        { type: "read", mbean: QUEUE, attribute: "Name" },
        { type: "exec", mbean: QUEUE, operation: "pause()" },
        { type: "read", mbean: QUEUE, attribute: "Paused" },
        { type: "exec", mbean: QUEUE, operation: "resume()" },
        { type: "read", mbean: "no.such:a=b", attribute: "X" },
    ])).map(said))
    await ask("a wrong password", async () => said(await new Jolokia({ url, username, password: "wrong" }).version()))
    await ask("polled twice", () => new Promise((resolve, reject) => {
        const seen = []
        const late = setTimeout(() => { jolokia.stop(); reject(new Error(`seen ${JSON.stringify(seen)}`)) }, 20_000)
        const handle = jolokia.register({
            success: answer => {
                seen.push(answer.value)
                if (seen.length < 2) return
                clearTimeout(late)
                jolokia.unregister(handle)
                jolokia.stop()
                resolve(seen)
            },
            error: answer => reject(answer),
        }, { type: "read", mbean: QUEUE, attribute: "MessageCount" })
        jolokia.start(200)
    }))
    await ask("polled with onlyIfModified", () => new Promise((resolve, reject) => {
        const late = setTimeout(() => { jolokia.stop(); reject(new Error("nothing")) }, 20_000)
        const handle = jolokia.register({
            config: { maxDepth: 2 }, onlyIfModified: true,
            success: answer => { clearTimeout(late); jolokia.unregister(handle); jolokia.stop(); resolve("org.apache.activemq.artemis" in answer.value) },
            error: answer => reject(answer),
        }, { type: "list" })
        jolokia.start(200)
    }))
    return told
}

if (globalThis.process?.argv?.[2]) console.log(JSON.stringify(await asks(...process.argv.slice(2))))
