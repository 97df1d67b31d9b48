1001121188 A: to D to D:1: the bridge to D (D-c8bdb0f42a) is open
1001141104 D: to C to C:1: the bridge to C (C-0729e68201) is open
1001152860 A: to B to B:1: the bridge to B (B-5cca5b63f0) is open
1001219292 D: to A to A:1: the bridge to A (A-6e1461f0f3) is open
1001499988 B: to C to C:1: the bridge to C (C-0729e68201) is open
1002013512 B: to A to A:1: the bridge to A (A-6e1461f0f3) is open
1002360392 B: to D to D:1: the bridge to D (D-c8bdb0f42a) is open
1002423952 A: to C to C:1: the bridge to C (C-0729e68201) is open
1002833932 C: to D to D:1: the bridge to D (D-c8bdb0f42a) is open
1003349156 D: to B to B:1: the bridge to B (B-5cca5b63f0) is open
1005766684 C: to B to B:1: the bridge to B (B-5cca5b63f0) is open
1008091484 C: to A to A:1: the bridge to A (A-6e1461f0f3) is open
2500000000 crash A
2500000000 asker0 asks asker0.0
2500000000 asker1 asks asker1.1
2500000000 asker2 asks asker2.2
2500000000 B: to D to D:1: the bridge to D ended: it was stopped
2500040000 answerer0 has asker0.0
2500080000 asker0 is answered asker0.0
2500401435 confirmed asker2.2
2500499928 confirmed asker0.0
2500627289 answerer0 has asker2.2
2501231671 answerer0 has asker1.1
2501396668 asker1 is answered asker1.1
2501734605 confirmed asker1.1
2837000000 consumed m2 at C over 0
2837000000 consumed m3 at C over 0
2837239440 confirmed m0
2838617688 confirmed m1
2838617688 confirmed m2
2838617688 confirmed m3
2838617688 confirmed m4
2838617688 confirmed m5
2851000000 asker0 asks asker0.3
2851000000 asker1 asks asker1.4
2851040000 answerer0 has asker0.3
2851080000 asker0 is answered asker0.3
2851932379 confirmed asker1.4
2852096612 A: to D to D:1: the bridge to D (D-c8bdb0f42a) is open
2852231671 answerer0 has asker1.4
2852396668 asker1 is answered asker1.4
2852648091 confirmed asker0.3
2852982200 A: to C to C:1: the bridge to C (C-0729e68201) is open
2855000000 asker0 asks asker0.5
2855000000 asker1 asks asker1.6
2855040000 answerer0 has asker0.5
2855080000 asker0 is answered asker0.5
2855486063 confirmed m6
2855944930 confirmed m7
2855944930 confirmed m8
2855944930 confirmed m9
2855944930 confirmed m10
2855944930 confirmed m11
2855944930 confirmed m12
2855964930 confirmed asker1.6
2856000000 consumed m6 at C over 0
2856000000 consumed m9 at C over 0
2856000000 consumed m12 at C over 0
2856231671 answerer0 has asker1.6
2856396668 asker1 is answered asker1.6
2856583113 confirmed asker0.5
2860500848 A: to B to B:1: the bridge to B (B-5cca5b63f0) is open
2874000000 consumed m18 at C over 0
2874000000 cut B D silent=True
2874165849 confirmed m13
2875019466 confirmed m14
2875019466 confirmed m15
2875019466 confirmed m16
2875019466 confirmed m17
2875019466 confirmed m18
2875019466 confirmed m19
2876000000 deafen A B
3370000000 asker0 asks asker0.7
3370000000 asker1 asks asker1.8
3370000000 C: to B to B:1: the bridge to B ended: it was stopped
3370040000 answerer0 has asker0.7
3370080000 asker0 is answered asker0.7
3371000000 consumed m20 at A over 0
3371000000 consumed m22 at A over 0
3371000000 consumed m26 at A over 0
3371000000 consumed m28 at A over 0
3371000000 consumed m29 at A over 0
3371000000 consumed m20 at A over 0
3371000000 consumed m21 at A over 0
3371059429 consumed m27 at C over 2
3371059429 consumed m25 at C over 1
3371196115 confirmed asker0.7
3371245550 consumed m24 at C over 1
3371498970 confirmed m20
3371841131 confirmed asker1.8
3372000000 consumed m22 at A over 0
3372382630 confirmed m21
3372382630 confirmed m22
3372382630 confirmed m23
3372382630 confirmed m24
3372382630 confirmed m25
3372382630 confirmed m26
3372382630 confirmed m27
3372382630 confirmed m28
3372382630 confirmed m29
3373000000 consumed m26 at A over 0
3374000000 consumed m28 at A over 0
3375000000 consumed m29 at A over 0
3418000000 asker0 asks asker0.9
3418040000 answerer0 has asker0.9
3418080000 asker0 is answered asker0.9
3418843886 confirmed m30
3419035276 consumed m32 at C over 1
3419512237 confirmed m31
3419512237 confirmed m32
3419512237 confirmed m33
3419512237 confirmed m34
3419512237 confirmed m35
3420025734 confirmed asker0.9
3744000000 crash C
3744000000 A: to B to B:1: the bridge to B ended: it was stopped
3745084516 C: to D to D:1: the bridge to D (D-c8bdb0f42a) is open
3745098772 C: to B to B:1: the bridge to B (B-5cca5b63f0) is open
3752863460 C: to A to A:1: the bridge to A (A-6e1461f0f3) is open
3755000000 cut A C silent=False
3755000000 A: to C to C:1: the bridge to C ended: cut
3755000000 C: to A to A:1: the bridge to A ended: cut
3760000000 consumed m37 at C over 0
3760000000 consumed m38 at C over 0
3760000000 consumed m39 at C over 0
3760000000 consumed m42 at C over 0
3760766192 confirmed m36
3762245931 confirmed m37
3762245931 confirmed m38
3762245931 confirmed m39
3762245931 confirmed m40
3762245931 confirmed m41
3762245931 confirmed m42
3762245931 confirmed m43
3762245931 confirmed m44
3762245931 confirmed m45
3762245931 confirmed m46
3762245931 confirmed m47
3933000000 crash A
3952000000 B: to A to A:1: the bridge to A ended: it begins anew
3953000000 consumed m22 at A over 0
3953087148 A: to D to D:1: the bridge to D (D-c8bdb0f42a) is open
3953097864 B: to A to A:1: the bridge to A (A-6e1461f0f3) is open
3953267520 B: to D to D:1: the bridge to D (D-c8bdb0f42a) is open
3953391008 A: to B to B:1: the bridge to B (B-5cca5b63f0) is open
3953495924 A: to C to C:1: the bridge to C (C-0729e68201) is open
3954000000 consumed m26 at A over 0
3955000000 consumed m28 at A over 0
3956000000 consumed m29 at A over 0
3960640804 C: to A to A:1: the bridge to A (A-6e1461f0f3) is open
3962871407 consumed m0 at A over 1
3962871407 consumed m4 at A over 1
3962871407 consumed m7 at A over 1
3962871407 consumed m10 at A over 1
3962871407 consumed m15 at A over 1
3962871407 consumed m0 at A over 1
3962871407 consumed m4 at A over 1
3962871407 consumed m7 at A over 1
3962871407 consumed m10 at A over 1
3962871407 consumed m15 at A over 1
3962871407 consumed m0 at A over 1
3963871407 consumed m4 at A over 1
3963948447 consumed m16 at A over 1
3963948447 consumed m36 at A over 1
3963948447 consumed m40 at A over 1
3963948447 consumed m45 at A over 1
3963948447 consumed m46 at A over 1
3963948447 consumed m16 at A over 1
3963948447 consumed m36 at A over 1
3963948447 consumed m40 at A over 1
3963948447 consumed m45 at A over 1
3963948447 consumed m46 at A over 1
3964871407 consumed m7 at A over 1
3965871407 consumed m10 at A over 1
3966871407 consumed m15 at A over 1
3967871407 consumed m0 at A over 1
3968871407 consumed m4 at A over 1
3969871407 consumed m7 at A over 1
3970871407 consumed m10 at A over 1
3971871407 consumed m15 at A over 1
3972871407 consumed m16 at A over 1
3973871407 consumed m36 at A over 1
3974871407 consumed m40 at A over 1
3975871407 consumed m45 at A over 1
3976871407 consumed m46 at A over 1
3977871407 consumed m16 at A over 1
3978871407 consumed m36 at A over 1
3979871407 consumed m40 at A over 1
3980871407 consumed m45 at A over 1
3981871407 consumed m46 at A over 1
5001328938 D: to A to A:1: the bridge to A ended: the broker said nothing for 3000 ms
5053161598 D: to A to A:1: the bridge to A (A-6e1461f0f3) is open
5054786093 consumed m14 at A over 2
5054786093 consumed m17 at A over 2
5054786093 consumed m43 at A over 2
5054786093 consumed m0 at A over 2
5054786093 consumed m0 at A over 2
5054786093 consumed m4 at A over 2
5054786093 consumed m4 at A over 2
5054786093 consumed m7 at A over 2
5054786093 consumed m0 at A over 2
5054786093 consumed m0 at A over 2
5054786093 consumed m4 at A over 2
5054786093 consumed m4 at A over 2
5054786093 consumed m7 at A over 2
5054786093 consumed m0 at A over 2
5055786093 consumed m7 at A over 2
5055786093 consumed m10 at A over 2
5055786093 consumed m10 at A over 2
5055786093 consumed m15 at A over 2
5055786093 consumed m15 at A over 2
5055786093 consumed m7 at A over 2
5055786093 consumed m10 at A over 2
5055786093 consumed m10 at A over 2
5055786093 consumed m15 at A over 2
5055786093 consumed m15 at A over 2
5055786093 consumed m0 at A over 2
5056786093 consumed m4 at A over 2
5057137691 consumed m16 at A over 2
5057137691 consumed m16 at A over 2
5057137691 consumed m30 at A over 1
5057137691 consumed m31 at A over 1
5057137691 consumed m33 at A over 1
5057137691 consumed m16 at A over 2
5057137691 consumed m16 at A over 2
5057137691 consumed m30 at A over 1
5057137691 consumed m31 at A over 1
5057137691 consumed m33 at A over 1
5057786093 consumed m4 at A over 2
5058599356 consumed m36 at A over 2
5058599356 consumed m36 at A over 2
5058599356 consumed m40 at A over 2
5058599356 consumed m40 at A over 2
5058599356 consumed m45 at A over 2
5058599356 consumed m36 at A over 2
5058599356 consumed m36 at A over 2
5058599356 consumed m40 at A over 2
5058599356 consumed m40 at A over 2
5058599356 consumed m45 at A over 2
5058786093 consumed m7 at A over 2
5059786093 consumed m0 at A over 2
5059854263 consumed m45 at A over 2
5059854263 consumed m46 at A over 2
5059854263 consumed m46 at A over 2
5059854263 consumed m45 at A over 2
5059854263 consumed m46 at A over 2
5059854263 consumed m46 at A over 2
5060786093 consumed m0 at A over 2
5061786093 consumed m4 at A over 2
5062786093 consumed m4 at A over 2
5063786093 consumed m7 at A over 2
5064786093 consumed m7 at A over 2
5065786093 consumed m10 at A over 2
5066786093 consumed m10 at A over 2
5067786093 consumed m15 at A over 2
5068786093 consumed m15 at A over 2
5069786093 consumed m7 at A over 2
5070786093 consumed m10 at A over 2
5071786093 consumed m10 at A over 2
5072786093 consumed m15 at A over 2
5073786093 consumed m15 at A over 2
5074786093 consumed m16 at A over 2
5075786093 consumed m16 at A over 2
5076786093 consumed m30 at A over 1
5077786093 consumed m31 at A over 1
5078786093 consumed m33 at A over 1
5079786093 consumed m16 at A over 2
5080786093 consumed m16 at A over 2
5081786093 consumed m30 at A over 1
5082786093 consumed m31 at A over 1
5083786093 consumed m33 at A over 1
5084786093 consumed m36 at A over 2
5085786093 consumed m36 at A over 2
5086786093 consumed m40 at A over 2
5087786093 consumed m40 at A over 2
5088786093 consumed m45 at A over 2
5089786093 consumed m36 at A over 2
5090786093 consumed m36 at A over 2
5091786093 consumed m40 at A over 2
5092786093 consumed m40 at A over 2
5093786093 consumed m45 at A over 2
5094786093 consumed m45 at A over 2
5095786093 consumed m46 at A over 2
5096786093 consumed m46 at A over 2
5097786093 consumed m45 at A over 2
5098786093 consumed m46 at A over 2
5099786093 consumed m46 at A over 2
5501555873 D: to B to B:1: the bridge to B ended: the broker said nothing for 3000 ms
5501881790 answerer0 has asker1.8
5502764038 consumed m35 at A over 1
5502764038 consumed m8 at A over 2
5553106549 D: to B to B:1: the bridge to B (B-5cca5b63f0) is open
5953000000 consumed m34 at D over 0
5954000000 consumed m1 at D over 1
5955000000 consumed m5 at D over 1
5956000000 consumed m11 at D over 1
5957000000 consumed m13 at D over 1
5958000000 consumed m19 at D over 1
5959000000 consumed m23 at D over 1
5960000000 consumed m41 at D over 2
5961000000 consumed m47 at D over 3
6001749982 B: to C to C:1: the bridge to C ended: the broker said nothing for 3000 ms
6002774448 consumed m44 at A over 2
6052881226 B: to C to C:1: the bridge to C (C-0729e68201) is open
6419644570 D: to C to C:1: the bridge to C ended: the broker said nothing for 3000 ms
6420976716 consumed m24 at C over 2
6420976716 consumed m25 at C over 2
6470734074 D: to C to C:1: the bridge to C (C-0729e68201) is open
11952000000 asker0 asks asker0.10
11952000000 asker1 asks asker1.11
11952000000 asker2 gives asker2.2 up
11952000000 asker2 asks asker2.12
11952040000 answerer0 has asker0.10
11952064693 answerer0 has asker1.11
11952080000 asker0 is answered asker0.10
11952137504 asker1 is answered asker1.11
11952177669 answerer0 has asker2.12
11952284549 asker2 is answered asker2.12
11952333355 confirmed asker2.12
11952484046 confirmed asker0.10
11952751582 confirmed asker1.11
13953000000 asker0 asks asker0.13
13953000000 asker1 asks asker1.14
13953000000 asker2 asks asker2.15
13953040000 answerer0 has asker0.13
13953064693 answerer0 has asker1.14
13953080000 asker0 is answered asker0.13
13953137504 asker1 is answered asker1.14
13953177669 answerer0 has asker2.15
13953284549 asker2 is answered asker2.15
13954111418 confirmed asker2.15
13954310834 confirmed asker0.13
13954800038 confirmed asker1.14
15954000000 asker0 asks asker0.16
15954000000 asker1 asks asker1.17
15954000000 asker2 asks asker2.18
15954040000 answerer0 has asker0.16
15954064693 answerer0 has asker1.17
15954080000 asker0 is answered asker0.16
15954137504 asker1 is answered asker1.17
15954145591 confirmed asker1.17
15954177669 answerer0 has asker2.18
15954284549 asker2 is answered asker2.18
15954380088 confirmed asker2.18
15954974263 confirmed asker0.16
