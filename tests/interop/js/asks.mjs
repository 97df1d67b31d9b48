// Asks a broker by jolokia.js and its simple form, in node or in a page. Returns question -> what was told.
import Jolokia from "@jolokia.js/simple"

globalThis.window ??= globalThis // jolokia.js looks for btoa there, and node has no window

const ARTEMIS = 'org.apache.activemq.artemis:broker="ref"'
const CLASSIC = "org.apache.activemq:type=Broker,brokerName=ref"
const FAMILIES = {
    artemis: {
        broker: ARTEMIS,
        queue: ARTEMIS + ',component=addresses,address="orders",subcomponent=queues,routing-type="anycast",queue="orders"',
        queues: ARTEMIS + ",component=addresses,subcomponent=queues,*",
        size: "MessageCount",
        counts: ["countMessages(java.lang.String)", "n = 1", "n / 1 = 1"],
        limit: "MessageCounterSamplePeriod",
    },
    classic: {
        broker: CLASSIC,
        queue: CLASSIC + ",destinationType=Queue,destinationName=orders",
        queues: CLASSIC + ",destinationType=Queue,*",
        size: "QueueSize",
        counts: ["removeMatchingMessages(java.lang.String)", "n = 71", "n / 1 = 71"],
        limit: "MemoryLimit",
    },
}

export async function asks(url, username, password, family = "artemis") {
    const { broker, queue, queues, size, counts, limit } = FAMILIES[family]
    const domain = queue.split(":")[0]
    const told = {}
    const jolokia = new Jolokia({ url, username, password })
    const ask = async (name, question) => {
        let late
        const silence = new Promise((_, refuse) => { late = setTimeout(() => refuse(new Error("no answer")), 30_000) })
        try {
            told[name] = await Promise.race([question(), silence])
        } catch (error) {
            told[name] = `refused ${error?.error_type ?? error?.status ?? error?.message ?? ""}`
        } finally {
            clearTimeout(late)
        }
    }
    const said = answer => answer.status === 200 ? answer.value : `${answer.status} ${answer.error_type} ${answer.stacktrace === undefined}`
    const called = request => new Promise(resolve => jolokia.request(request, {
        success: answer => resolve(`success ${answer.value}`),
        error: answer => resolve(`error ${answer.status} ${answer.error_type}`),
        fetchError: answer => resolve(`fetchError ${answer?.status}`),
    }))
    await ask("read", async () => said(await jolokia.request({ type: "read", mbean: queue, attribute: size })))
    await ask("read by GET", async () => said(await jolokia.request({ type: "read", mbean: queue, attribute: size }, { method: "get" })))
    await ask("read several", async () => said(await jolokia.request({ type: "read", mbean: queue, attribute: [size, "Name"] })))
    await ask("simple read", () => jolokia.getAttribute(queue, size))
    await ask("simple read of several", () => jolokia.getAttribute(queue, [size, "Paused"]))
    await ask("simple search", async () => (await jolokia.search(queues)).some(name => /orders/.test(name)))
    await ask("simple search for nothing", () => jolokia.search("no.such:*"))
    await ask("simple list", async () => Object.keys((await jolokia.list(domain + "/" + Jolokia.escape(queue.split(":")[1])))).sort().join())
    await ask("simple version", async () => (await jolokia.version()).protocol >= "7")
    await ask("simple exec", () => jolokia.execute(queue, counts[0], counts[1]))
    await ask("exec with a slash by GET", () => jolokia.execute(queue, counts[0], counts[2], { method: "get" }))
    await ask("simple write of what is read alone", () => jolokia.setAttribute(queue, size, 5))
    await ask("write", async () => {
        const before = await jolokia.getAttribute(broker, limit)
        const answer = await jolokia.request({ type: "write", mbean: broker, attribute: limit, value: 70_000_000 })
        const after = await jolokia.getAttribute(broker, limit)
        const again = await jolokia.request({ type: "write", mbean: broker, attribute: limit, value: String(before) }, { method: "get" })
        return [answer.value === before, after, again.value, await jolokia.getAttribute(broker, limit) === before]
    })
    await ask("simple write", async () => {
        const before = await jolokia.getAttribute(broker, limit)
        await jolokia.setAttribute(broker, limit, 71_000_000)
        const after = await jolokia.getAttribute(broker, limit)
        await jolokia.setAttribute(broker, limit, before)
        return after
    })
    await ask("a wrong value", async () => (await jolokia.request({ type: "write", mbean: broker, attribute: limit, value: "many" })).status)
    await ask("no attribute to write", async () => said(await jolokia.request({ type: "write", mbean: broker, attribute: "NoSuch", value: 1 })))
    await ask("no attribute", async () => said(await jolokia.request({ type: "read", mbean: queue, attribute: "NoSuch" })))
    await ask("no operation", async () => said(await jolokia.request({ type: "exec", mbean: queue, operation: "noSuch()" })))
    await ask("called with success", () => called({ type: "read", mbean: queue, attribute: size }))
    await ask("called with an error", () => called({ type: "read", mbean: queue, attribute: "NoSuch" }))
    await ask("called for a wrong password", () => new Promise(resolve => new Jolokia({ url, username, password: "wrong" }).request(
        { type: "version" }, { success: () => resolve("success"), error: () => resolve("error"), fetchError: answer => resolve(`fetchError ${answer?.status}`) })))
    await ask("bulk", async () => (await jolokia.request([
        { type: "read", mbean: queue, attribute: "Name" },
        { type: "exec", mbean: queue, operation: "pause()" },
        { type: "read", mbean: queue, attribute: "Paused" },
        { type: "exec", mbean: queue, operation: "resume()" },
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
        }, { type: "read", mbean: queue, attribute: size })
        jolokia.start(200)
    }))
    await ask("polled with onlyIfModified", () => new Promise((resolve, reject) => {
        const late = setTimeout(() => { jolokia.stop(); reject(new Error("nothing")) }, 20_000)
        const handle = jolokia.register({
            config: { maxDepth: 2 }, onlyIfModified: true,
            success: answer => { clearTimeout(late); jolokia.unregister(handle); jolokia.stop(); resolve(domain in answer.value) },
            error: answer => reject(answer),
        }, { type: "list" })
        jolokia.start(200)
    }))
    return told
}

if (globalThis.process?.argv?.[2]) console.log(JSON.stringify(await asks(...process.argv.slice(2))))
